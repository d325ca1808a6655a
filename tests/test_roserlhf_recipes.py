"""Recipes: a name and options become callables, or one line that says what is wrong; the callables are the published formulas."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from rosellm.roserlhf import ConfigError, recipes
from rosellm.roserlhf.config import dump_toml
from rosellm.roserlhf.recipes import grpo, reinforce
from rosellm.roserlhf.trainer.config import ModelConfig


def test_grpo_standardises_inside_the_group_and_clips_the_ratio() -> None:
    recipe = grpo(clip_low=0.25, clip_high=0.5)
    # population standard deviation of [1, 0, 0, 1] is 1/2: (1 - 1/2) / (1/2) = 1
    assert recipe.credit(one_group(1.0, 0.0, 0.0, 1.0)).tolist() == pytest.approx([1, -1, -1, 1])
    # ratios 2 and 1/2 with advantages +1 and -1: min(2, 1.5) = 1.5 and min(-0.5, -0.75) = -0.75; the loss is -(1.5 - 0.75) / 4
    old = torch.tensor([[-3.0, -3.0]])
    current = old + torch.tensor([[math.log(2.0), -math.log(2.0)]])
    out = recipe.objective(current, old, torch.tensor([[1.0, -1.0]]), torch.ones(1, 2, dtype=torch.bool), denominator=4.0)
    assert out.loss.item() == pytest.approx(-0.1875, abs=1e-6)


def test_reinforce_leaves_one_out_and_weighs_log_probabilities() -> None:
    recipe = reinforce()
    # each minus the mean of the other two: 1 - (4 + 1)/2, 4 - (1 + 1)/2, 1 - (1 + 4)/2
    assert recipe.credit(one_group(1.0, 4.0, 1.0)).tolist() == [-1.5, 3.0, -1.5]
    current = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    out = recipe.objective(
        current, torch.tensor([[-1.5, -2.0]]), torch.tensor([[3.0, -1.5]]), torch.tensor([[True, True]]), denominator=2.0
    )
    # -(3 * -1 + -1.5 * -2) / 2 = 0, and the gradient is -A / 2 whatever the value is
    assert out.loss.item() == pytest.approx(0.0)
    out.loss.backward()
    assert current.grad is not None
    assert current.grad.tolist() == [[-1.5, 0.75]]


@pytest.mark.parametrize("name", ["epochs", "minibatches"])
def test_reinforce_refuses_updates_for_which_it_has_no_ratio(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^optimizer\.{name} must be 1 for recipe reinforce, got 2; .* grpo has$"):
        reinforce(optimizer={name: 2})


def test_a_partial_section_keeps_the_recipes_own_defaults() -> None:
    assert reinforce(optimizer={"learning_rate": 1e-4}).config.optimizer.minibatches == 1
    assert grpo(optimizer={"learning_rate": 1e-4}).config.optimizer.minibatches == 2


def test_a_run_file_gives_back_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    recipe = reinforce(seed=4, collect={"tasks": 3})
    file.write_text(dump_toml(recipe.config, about={"torch": "2.13.0"}), encoding="utf-8")
    assert recipes.load_recipe(file).config == recipe.config


def test_R73_an_option_of_another_recipe_and_an_unknown_recipe_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^clip_low is an option of recipe grpo; recipe reinforce does not use it$"):
        reinforce(clip_low=0.1)
    with pytest.raises(ConfigError, match=r"^recipe must be one of grpo, reinforce, got 'grop'; did you mean grpo\?$"):
        recipes.options_to_config({"recipe": "grop"})
    with pytest.raises(ConfigError, match=r"^recipe must be one of grpo, reinforce, got 3$"):
        recipes.options_to_config({"recipe": 3})


def test_a_model_whose_heads_do_not_fit_its_width_is_refused_before_it_is_built() -> None:
    with pytest.raises(ConfigError, match=r"^model\.hidden_size must be a multiple of 2 \* heads = 8, got 132$"):
        grpo(model={"hidden_size": 132})
    assert grpo(model=ModelConfig(hidden_size=136)).config.model.hidden_size == 136
