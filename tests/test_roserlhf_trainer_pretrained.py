"""A run that starts from a pretrained model in the Hugging Face layout: a tiny one, made here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pretrained_models import change
from safetensors.torch import load_file, save_file

from rosellm.roserlhf import recipes
from rosellm.roserlhf.audit import replay
from rosellm.roserlhf.audit.examination.loading import load_subject
from rosellm.roserlhf.audit.examination.subject import Player
from rosellm.roserlhf.audit.examination.two_processes import two_processes
from rosellm.roserlhf.audit.inspection.order import inspect_run
from rosellm.roserlhf.cli.train import run as run_command
from rosellm.roserlhf.codec.hf import build_tokenizer
from rosellm.roserlhf.environment.protocol import StepResult, ToolRunner
from rosellm.roserlhf.environment.shop import Shop
from rosellm.roserlhf.errors import CheckpointError, ConfigError
from rosellm.roserlhf.models.causal import build_llama, export_model
from rosellm.roserlhf.models.pretrained import load_pretrained
from rosellm.roserlhf.models.vocabulary import spoken_ids
from rosellm.roserlhf.report.before_after import read_pairs
from rosellm.roserlhf.report.run_folder import read_run
from rosellm.roserlhf.store.reading import EventReader
from rosellm.roserlhf.trainer.config import CollectConfig, OptimizerConfig, TrainConfig, WarmStartConfig
from rosellm.roserlhf.trainer.evaluate import evaluate_run
from rosellm.roserlhf.trainer.model import new_model
from rosellm.roserlhf.trainer.recipe import Recipe
from rosellm.roserlhf.trainer.run import train
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure


class Chatter(Shop):
    """Pays for an even number of characters in the last reply: something that a model without any skill gets right sometimes."""

    async def step(self, action: ParsedAction | ParseFailure, run: ToolRunner) -> StepResult:
        self.said = action.raw if isinstance(action, ParseFailure) else ""
        return await super().step(action, run)

    def score(self) -> dict[str, float | None]:
        return {**super().score(), "correct": float(len(self.said) % 2 == 0)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two thin layers whose embedding is wider than its tokenizer, as padded ones are."""
    path = tmp_path_factory.mktemp("pretrained")
    tokenizer = build_tokenizer(Shop.vocabulary)
    sizes = {"layers": 2, "hidden_size": 32, "heads": 2, "key_value_heads": 1, "intermediate_size": 64}
    export_model(build_llama(vocabulary_size=len(tokenizer) + 5, context_window=256, seed=7, **sizes), path)
    tokenizer.save_pretrained(path)
    return path


def small(folder: Path, **model: Any) -> Recipe:
    return recipes.grpo(
        model={"source": str(folder), "tell_tools": False, **model},
        steps=2,
        checkpoint_every=1,
        drop_uniform_groups=False,
        collect={"tasks": 2, "group_size": 4, "max_turns": 2, "max_turn_tokens": 16, "context_window": 256},
        warm_start={"demonstrations": 8, "batch_size": 4, "max_steps": 2, "check_every": 2, "check_tasks": 2},
        evaluate={"tasks": 2},
    )


@pytest.mark.parametrize("model", [{}, {"lora": 2}, {"lora": 2, "sampler": "bfloat16", "checkpoint_gradients": True}])
def test_a_run_trains_resumes_evaluates_and_replays(folder: Path, tmp_path: Path, model: dict[str, Any]) -> None:
    recipe = small(folder, **model)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert train(recipe, environment=Chatter, out=whole).status == "finished"
    steps: list[int] = []

    def stop() -> bool:
        steps.append(0)
        return len(steps) == 2  # after the first of two cloning steps, and after the first training step

    assert train(recipe, environment=Chatter, out=cut, should_stop=stop).status == "interrupted"
    assert train(recipe, environment=Chatter, out=cut, resume=True).status == "finished"
    with EventReader.read(whole / "events.db") as one, EventReader.read(cut / "events.db") as other:
        hashes = [{policy.version: policy.content_hash for policy in log.policies()} for log in (one, other)]
    assert hashes[0] == hashes[1]
    assert len({*hashes[0].values()}) == 3  # v0, v1, v2: every step changed the weights
    assert replay(whole, step=2).equal
    assert evaluate_run(whole, tasks=2, samples=1, environment=Chatter)["tasks"] == 2
    assert {one.name: one.evidence for one in inspect_run(whole) if one.verdict != "passed"} == {}


def test_the_doctor_examines_adapters_finds_a_changed_model_and_skips_it_without_its_base(folder: Path, tmp_path: Path) -> None:
    base = shutil.copytree(folder, tmp_path / "base")
    run = tmp_path / "run"
    assert train(small(base, lora=2), environment=Chatter, out=run).status == "finished"
    subject = load_subject(run)
    player = Player(subject)
    try:
        outcome = two_processes(subject, player.play(subject.tasks(2), members=2, step=0))
    finally:
        player.close()
    assert outcome.verdict == "passed", outcome.evidence
    exported = run / "model" / "model.safetensors"
    tensors = load_file(exported)
    tensors["model.norm.weight"][0] += 1e-3
    save_file(tensors, exported, {"format": "pt"})
    (found,) = [one for one in inspect_run(run) if one.name == "exported model"]
    assert found.verdict == "failed"
    assert "model.norm.weight" in found.evidence
    shutil.rmtree(base)
    (found,) = [one for one in inspect_run(run) if one.name == "exported model"]
    assert found.verdict == "skipped"
    assert str(base) in found.evidence


def test_the_first_ratio_is_one_and_the_report_knows_calls_and_held_out_episodes(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(small(folder, lora=2), environment=Chatter, out=out)
    run = read_run(out)
    assert run.config is not None
    assert run.config["about"]["calls"] == "function"  # what `auto` became
    assert [(before.step, after.step) for before, after in read_pairs(run)[0]] == [(0, 2), (0, 2)]
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert max(row["max_abs_log_ratio_before_update"] for row in rows if row["phase"] == "train") < 1e-4


def test_a_pretrained_model_has_defaults_of_its_own() -> None:
    built, whole = recipes.grpo().config, recipes.grpo(model={"source": "x"}).config
    adapted = recipes.grpo(model={"source": "x", "lora": 8}, collect={"tasks": 3}).config
    assert (built.collect.tasks, whole.collect.tasks, adapted.collect.tasks) == (40, 8, 3)
    assert (built.optimizer.learning_rate, whole.optimizer.learning_rate, adapted.optimizer.learning_rate) == (1.5e-3, 2e-5, 2e-4)
    again = TrainConfig.model_validate({k: v for k, v in adapted.model_dump().items() if k in TrainConfig.model_fields})
    assert again.collect == adapted.collect  # what a run file says stays


@pytest.mark.parametrize("name", ["collect", "optimizer", "warm_start"])
def test_a_section_given_as_an_object_leaves_the_rest_to_those_defaults(name: str) -> None:
    section = {
        "collect": CollectConfig(tasks=3),
        "optimizer": OptimizerConfig(epochs=2),
        "warm_start": WarmStartConfig(check_every=2),
    }
    same = {"collect": {"tasks": 3}, "optimizer": {"epochs": 2}, "warm_start": {"check_every": 2}}
    one, other = (recipes.grpo(model={"source": "x"}, **{name: given[name]}).config for given in (section, same))
    assert one == other


@pytest.mark.parametrize(("option", "value"), [("lora", 4), ("calls", "hermes"), ("tell_tools", False)])
def test_what_only_a_pretrained_model_reads_is_refused_without_one(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{option} must be .* for a model that is built from its sizes, got .*; name a source"):
        recipes.grpo(model={option: value})


@pytest.mark.parametrize("size", ["layers", "hidden_size", "heads", "key_value_heads", "intermediate_size"])
def test_sizes_of_a_pretrained_model_are_its_own(size: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"{size} must be \d+ for a pretrained model, which has sizes of its own, got 16; leave it"
    ):
        recipes.grpo(model={"source": "x", size: 16})


def interrupted(folder: Path, out: Path, **model: Any) -> Recipe:
    """A run of a copy of the model, stopped after its first training step."""
    recipe = small(folder, **model)
    asked: list[int] = []

    def stop() -> bool:
        asked.append(0)
        return len(asked) == 2

    assert train(recipe, environment=Chatter, out=out, should_stop=stop).status == "interrupted"
    return recipe


def change_rotation(folder: Path) -> None:
    change(folder, rope_parameters={"rope_type": "default", "rope_theta": 5.0})


def change_vocabulary(folder: Path) -> None:
    path = folder / "tokenizer.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    words = about["model"]["vocab"]
    words["1"], words["2"] = words["2"], words["1"]
    path.write_text(json.dumps(about), encoding="utf-8")


def change_template(folder: Path) -> None:
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text(encoding="utf-8").replace("'<end>'", "'<end>\n'"), encoding="utf-8")


def change_base(folder: Path) -> None:
    save_file(
        {k: v * 1.5 for k, v in load_file(folder / "model.safetensors").items()}, folder / "model.safetensors", {"format": "pt"}
    )


def test_a_run_is_not_resumed_with_another_source_under_the_same_name(folder: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "run"
    shutil.copytree(folder, source)
    recipe = interrupted(source, out, lora=2)
    for spoil, message in (
        (change_rotation, r"model must be the one that was trained, got rope_parameters.rope_theta = 5.0 where 10000.0"),
        (change_vocabulary, "tokenizer must be the one of checkpoint 1"),
        (change_template, "tokenizer must be the one of checkpoint 1"),
        (change_base, "adapters must belong to the base"),
    ):
        shutil.rmtree(source)
        shutil.copytree(folder, source)
        spoil(source)
        with pytest.raises(CheckpointError, match=message):
            train(recipe, environment=Chatter, out=out, resume=True)
        with pytest.raises(CheckpointError, match=message):
            evaluate_run(out, tasks=1, samples=1, environment=Chatter)
    shutil.rmtree(source)
    shutil.copytree(folder, source)
    assert train(recipe, environment=Chatter, out=out, resume=True).status == "finished"


def test_a_token_behind_left_out_ids_is_spoken(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(folder, source)
    path = source / "tokenizer.json"
    about = json.loads(path.read_text(encoding="utf-8"))
    words = about["model"]["vocab"]
    last = max(words, key=words.__getitem__)
    words[last] += 3
    path.write_text(json.dumps(about), encoding="utf-8")
    recipe = small(source)
    model = new_model(recipe.config, vocabulary_size=0, device="cpu")
    assert spoken_ids(model) == words[last] + 1
    assert load_pretrained(source).spare_logits == 2


def test_a_window_beyond_the_model_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"collect.context_window must be at most the model's 256, got 512"):
        train(recipes.grpo(model={"source": str(folder)}), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_short_names_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--model", str(folder), "--lora=4", "--env", "shop", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f'source = "{folder}"' in said
    assert "lora = 4" in said
    assert 'environment = "shop"' in said
