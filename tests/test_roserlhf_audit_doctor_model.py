"""Who can be examined (runs, checkpoints, Hugging Face folders), the two processes of step 8, and how the command ends."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import loop_worlds
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rosellm.roserlhf import train
from rosellm.roserlhf.audit.examination import order, two_processes
from rosellm.roserlhf.audit.examination.hand_credit import hand_returns
from rosellm.roserlhf.audit.examination.hand_formulas import hand_leave_one_out, hand_standardized
from rosellm.roserlhf.audit.examination.loading import load_subject
from rosellm.roserlhf.audit.examination.subject import Episodes, Player, Subject
from rosellm.roserlhf.audit.stages import Stage
from rosellm.roserlhf.cli import main
from rosellm.roserlhf.codec.hf import build_tokenizer
from rosellm.roserlhf.errors import CheckpointError, ConfigError, ModelError, RoseError, RunFolderError
from rosellm.roserlhf.models.causal import export_model, weights, weights_hash

Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doctor") / "run"
    train(loop_worlds.tiny(steps=2, warm_start={"max_steps": 4}), out=folder)
    return folder


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of somebody else's: untied, half precision, another tokenizer."""
    folder = tmp_path_factory.mktemp("foreign") / "model"
    config = LlamaConfig(
        vocab_size=60,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=131072,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = torch.nn.Module.to(LlamaForCausalLM(config), torch.bfloat16)
    model.save_pretrained(folder)
    build_tokenizer(["hello"]).save_pretrained(folder)
    return folder


def test_a_run_is_its_newest_checkpoint_and_a_checkpoint_is_itself(run: Path) -> None:
    whole, first = load_subject(run), load_subject(run / "checkpoints" / "0")
    assert (whole.version, first.version) == ("v2", "v0")
    assert whole.world is not None
    assert weights_hash(weights(whole.model)) != weights_hash(weights(first.model))


def test_a_damaged_checkpoint_is_skipped_and_named(run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    (folder / "checkpoints" / "2" / "state.json").unlink()
    skipped: list[str] = []
    assert load_subject(folder, on_skip=skipped.append).version == "v0"
    assert "no state.json" in skipped[0]


def test_an_exported_model_knows_the_run_beside_it_and_an_environment_can_be_named(run: Path, tmp_path: Path) -> None:
    beside = load_subject(run / "model")
    assert beside.world is not None
    assert weights_hash(weights(beside.model)) == weights_hash(weights(load_subject(run).model))
    alone = shutil.copytree(run / "model", tmp_path / "model")
    assert load_subject(alone).no_world == "no environment was named: --env NAME"
    assert load_subject(alone, "loop_worlds:Lookup").world is not None


def test_a_foreign_tokenizer_plays_no_environment_and_says_why(foreign: Path) -> None:
    subject = load_subject(foreign, "shop")
    assert subject.world is None
    assert "lacks ' and ', ' cost?'" in subject.no_world
    assert next(subject.model.parameters()).dtype == torch.float32
    assert load_subject(foreign).world is None


def test_what_can_run_without_an_environment_runs_and_the_rest_says_why_not(foreign: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(order, "STEPS", order.STEPS[:7])
    outcomes = list(order.examine(load_subject(foreign, "shop")))
    assert [outcome.verdict for outcome in outcomes] == [*["passed"] * 5, "skipped", "passed", "not built yet"], outcomes
    assert "shop cannot be played" in outcomes[5].evidence


def another_kind(folder: Path, foreign: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "gpt2"}')


def no_configuration(folder: Path, foreign: Path) -> None:
    (folder / "config.json").write_text("{")


def no_safetensors(folder: Path, foreign: Path) -> None:
    shutil.copy(foreign / "config.json", folder)
    (folder / "pytorch_model.bin").write_bytes(b"x")


def other_sizes(folder: Path, foreign: Path) -> None:
    shutil.copytree(foreign, folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))


def torn_weights(folder: Path, foreign: Path) -> None:
    shutil.copytree(foreign, folder, dirs_exist_ok=True)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])


def torn_tokenizer(folder: Path, foreign: Path) -> None:
    shutil.copytree(foreign, folder, dirs_exist_ok=True)
    (folder / "tokenizer.json").write_text("{")


def nothing(folder: Path, foreign: Path) -> None:
    """An empty folder."""


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (another_kind, ModelError, "model must be of type llama, got 'gpt2'"),
        (no_configuration, CheckpointError, "readable config.json"),
        (no_safetensors, CheckpointError, "keep its weights as safetensors"),
        (other_sizes, CheckpointError, "weights must be exactly those of config.json"),
        (torn_weights, CheckpointError, "model must be loadable"),
        (torn_tokenizer, ConfigError, "must be a tokenizer"),
        (nothing, RunFolderError, "must be a run folder, one of its checkpoints/<step> or a folder with config.json"),
    ],
)
def test_who_cannot_be_examined(foreign: Path, tmp_path: Path, make: Any, error: type[RoseError], message: str) -> None:
    make(tmp_path, foreign)
    with pytest.raises(error, match=message):
        load_subject(tmp_path, "shop")


def test_an_unknown_environment_is_a_wrong_call(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--model", str(run), "--env", "shpo"]) == 2
    assert "did you mean shop?" in capsys.readouterr().err


def test_the_command_prints_each_step_with_its_number(run: Path, tmp_path: Path, monkeypatch: Patch, capsys: Any) -> None:
    monkeypatch.setattr(order, "STEPS", order.STEPS[:5])
    found = tmp_path / "found.json"
    assert main(["doctor", "--model", str(run / "checkpoints" / "0"), "--json", str(found)]) == 0
    out = capsys.readouterr().out
    assert "weights v0" in out
    assert "2. ratio one before the first update: passed" in out
    assert out.splitlines()[-1] == "5 passed, 1 not built yet"
    assert [outcome["verdict"] for outcome in json.loads(found.read_text())["outcomes"]] == [*["passed"] * 5, "not built yet"]


def test_a_failed_step_exits_with_1_and_control_characters_are_shown(run: Path, monkeypatch: Patch, capsys: Any) -> None:
    def broken(at: Any) -> Any:
        raise ValueError("\x1b[2Jcleared")

    monkeypatch.setattr(order, "STEPS", (Stage("broken", (), broken),))
    assert main(["doctor", "--model", str(run)]) == 1
    out = capsys.readouterr().out
    assert "1. broken: failed" in out
    assert "\x1b" not in out
    assert "⟨U+001B⟩[2Jcleared" in out


def test_control_c_ends_every_thread(run: Path, monkeypatch: Patch, capsys: Any) -> None:
    def interrupt(at: order.Examination) -> Any:
        assert at.episodes.trajectories
        raise KeyboardInterrupt

    def workers() -> set[str]:
        return {thread.name for thread in threading.enumerate() if thread.name.startswith(("engine", "loop", "learner"))}

    before = workers()
    monkeypatch.setattr(order, "STEPS", (Stage("interrupted", (), interrupt),))
    assert main(["doctor", "--model", str(run)]) == 130
    assert workers() <= before


@pytest.fixture(scope="module")
def played(run: Path) -> tuple[Subject, Episodes]:
    subject = load_subject(run)
    player = Player(subject)
    try:
        return subject, player.play(subject.tasks(3), members=3, step=0)
    finally:
        player.close()


def test_a_denominator_that_each_process_counts_alone_is_named(played: tuple[Subject, Episodes], monkeypatch: Patch) -> None:
    monkeypatch.setenv("RANK_FAULT", "local")
    outcome = two_processes.two_processes(*played, module="loop_rank_faults")
    assert outcome.verdict == "failed"
    assert "each process divides by its own count" in outcome.cause


@pytest.mark.parametrize(
    ("fault", "evidence"), [("dies", "rank 1 ended with code 1: out of luck"), ("hangs", "did not finish within 2 s")]
)
def test_a_process_that_dies_or_hangs_is_ended_and_named(
    played: tuple[Subject, Episodes], monkeypatch: Patch, fault: str, evidence: str
) -> None:
    monkeypatch.setenv("RANK_FAULT", fault)
    outcome = two_processes.two_processes(*played, module="loop_rank_faults", seconds=2)
    assert (outcome.verdict, outcome.evidence) == ("failed", outcome.evidence)
    assert evidence in outcome.evidence


def test_control_c_leaves_no_process_behind(played: tuple[Subject, Episodes], monkeypatch: Patch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def remembered(*args: Any, **how: Any) -> subprocess.Popen[bytes]:
        started.append(start(*args, **how))
        return started[-1]

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("RANK_FAULT", "hangs")
    monkeypatch.setattr(two_processes.subprocess, "Popen", remembered)  # type: ignore[attr-defined]
    monkeypatch.setattr(two_processes.time, "sleep", interrupt)  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        two_processes.two_processes(*played, module="loop_rank_faults")
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_hand_computations() -> None:
    # returns at γ = 0.5: 1 + 0.5 · 2 + 0.25 · 4 = 3; 2 + 0.5 · 4 = 4; 4
    assert hand_returns([1.0, 2.0, 4.0], 0.5) == [3.0, 4.0, 4.0]
    # mean 2, population deviation √((4 + 0 + 4) / 3) = 1.632993
    assert hand_standardized([0.0, 2.0, 4.0]) == pytest.approx([-1.2247449, 0.0, 1.2247449])
    assert hand_standardized([0.35] * 8) == [0.0] * 8
    # 0 − 3/2, 1 − 2/2, 2 − 1/2
    assert hand_leave_one_out([0.0, 1.0, 2.0]) == [-1.5, 0.0, 1.5]


def test_a_foreign_model_is_exported_untouched(foreign: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in foreign.iterdir()}
    subject = load_subject(foreign)
    export_model(subject.model, tmp_path / "copy")
    assert {path.name: path.read_bytes() for path in foreign.iterdir()} == before
