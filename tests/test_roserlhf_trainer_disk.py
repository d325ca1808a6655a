"""The disk refuses a write of a real training run: one sentence that names the file, no damage, and the same numbers afterwards."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loop_worlds import outcome, tiny
from transformers import PreTrainedTokenizerFast

from rosellm.roserlhf.audit.inspection.order import inspect_run
from rosellm.roserlhf.errors import RoseError
from rosellm.roserlhf.store.database import Database
from rosellm.roserlhf.store.events import EventLog
from rosellm.roserlhf.trainer import checkpoint, folder, run, session
from rosellm.roserlhf.trainer.run import train

SMALL: dict[str, Any] = {
    "steps": 2,
    "checkpoint_every": 1,
    "warm_start": {"demonstrations": 2, "batch_size": 2, "max_steps": 1, "check_tasks": 1},
    "collect": {"tasks": 1, "group_size": 2},
    "evaluate": {"tasks": 1, "every": 1, "during_tasks": 1},
}


@contextlib.contextmanager
def full() -> Iterator[None]:
    """Refuse every byte behind the first sixteen of any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def named(name: str) -> Callable[..., bool]:
    """Pick the calls that write a file of this name."""
    return lambda *arguments, **_: any(isinstance(a, Path) and a.name.startswith(name) for a in arguments)


def every(*_: Any, **__: Any) -> bool:
    return True


WRITES: dict[str, tuple[Any, str, Callable[..., bool], int, str]] = {
    "run.toml": (folder, "write_whole", every, 1, r"run\.toml cannot be written"),
    "event log": (EventLog, "create", every, 1, r"events\.db cannot be created"),
    "tokenizer": (PreTrainedTokenizerFast, "save_pretrained", every, 1, "tokenizer cannot be written"),
    "demonstrations": (Database, "_commit", every, 3, r"^\S+events\.db cannot be written"),
    "weights": (checkpoint, "save_file", named("model"), 1, "checkpoints/0 cannot be written"),
    "evaluation": (Database, "_commit", every, 12, r"^\S+events\.db cannot be written"),
    "records": (Database, "_commit", every, 15, r"^step 2: \S+events\.db cannot be written"),
    "policy": (Database, "_commit", every, 16, r"^step 2: \S+events\.db cannot be written"),
    "account": (Database, "_commit", every, 17, r"^step 2: \S+events\.db cannot be written"),
    "optimizer": (checkpoint, "save_file", named("optimizer"), 2, "checkpoints/1 cannot be written"),
    "state.json": (Path, "write_text", named("state.json"), 3, "checkpoints/2 cannot be written"),
    "metrics.jsonl": (session, "append_lines", named("metrics.jsonl"), 4, r"metrics\.jsonl cannot be written"),
    "log.txt": (session, "append_lines", named("log.txt"), 2, r"log\.txt cannot be written"),
    "model": (run, "export_model", every, 1, "model cannot be written"),
    "summary.json": (run, "write_whole", every, 1, r"summary\.json cannot be written"),
    "report.html": (run, "write_report", every, 1, r"report\.html cannot be written"),
}
"""What is written, by which function, in which of its calls, and what is said when it cannot be."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an undisturbed run computes."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train(tiny(**SMALL), out=out)
    return outcome(out)


@pytest.mark.parametrize("what", WRITES)
def test_a_full_disk_stops_a_run_in_one_sentence_and_it_goes_on_to_the_same_numbers(
    what: str, tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, function, chosen, call, said = WRITES[what]
    plain, left = getattr(owner, function), [call]

    def refused(*arguments: Any, **options: Any) -> Any:
        left[0] -= chosen(*arguments, **options)
        with full() if left[0] == 0 else contextlib.nullcontext():
            left[0] -= left[0] == 0
            return plain(*arguments, **options)

    monkeypatch.setattr(owner, function, refused)
    with pytest.raises(RoseError, match=said) as caught:
        train(tiny(**SMALL), out=tmp_path / "run")
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    begun = (tmp_path / "run" / "run.toml").is_file()
    if begun:
        assert not [outcome for outcome in inspect_run(tmp_path / "run") if outcome.verdict == "failed"]
    else:
        assert list(tmp_path.iterdir()) == []
    train(tiny(**SMALL), out=tmp_path / "run", resume=begun)
    found = outcome(tmp_path / "run")
    for name, expected in whole.items():
        assert found[name] == expected, name
    assert not [outcome for outcome in inspect_run(tmp_path / "run") if outcome.verdict != "passed"]
