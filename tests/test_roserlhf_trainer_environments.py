"""Every built-in name trains as it stands: its demonstrations and episodes fit the budgets that it has by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from rosellm.roserlhf import recipes
from rosellm.roserlhf.store.reading import EventReader
from rosellm.roserlhf.trainer.run import train


@pytest.mark.parametrize(
    ("name", "recipe"),
    [("arithmetic", "grpo"), ("kitchen", "gigpo"), ("reasoning-gym:chain_sum", "grpo"), ("repair", "grpo"), ("shop", "grpo")],
)
def test_every_name_trains_within_the_budgets_it_has_by_default(name: str, recipe: str, tmp_path: Path) -> None:
    options = {
        "environment": name,
        "steps": 2,
        "collect": {"tasks": 2, "group_size": 4},
        "warm_start": {"demonstrations": 128, "max_steps": 2, "check_every": 2, "check_tasks": 2},
        "evaluate": {"tasks": 2},
        "drop_uniform_groups": False,
    }
    run = train(recipes.recipe_from(recipes.options_to_config({"recipe": recipe, **options})), out=tmp_path / "run")
    assert run.status == "finished"
    with EventReader.read(run.folder / "events.db") as log:
        records = [stored.trajectory for stored in log.trajectories(phase="train")]
        assert sum(record.sampled_tokens for record in records) > 0
        assert not any(record.failure for record in records)


def test_budgets_that_were_given_win_over_those_of_the_environment() -> None:
    kitchen = recipes.options_to_config({"recipe": "grpo", "environment": "kitchen", "collect": {"max_turns": 3}}).collect
    assert (kitchen.max_turns, kitchen.context_window, kitchen.tasks) == (3, 384, 40)
    pretrained = recipes.options_to_config({"recipe": "grpo", "environment": "kitchen", "model": {"source": "somewhere"}}).collect
    assert (pretrained.max_turns, pretrained.context_window, pretrained.tasks) == (16, 512, 8)
