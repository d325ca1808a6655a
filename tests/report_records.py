"""Event logs and tokenizers for the tests of the report: short `shop`-like rollouts with every kind of token."""

from __future__ import annotations

import json
from pathlib import Path

from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trajectory import PolicyAction, TokenSpan, ToolResult, Trajectory, TransitionRecord

TAGS = "<pad> <sys> </sys> <user> </user> <assistant> <tool> </tool> <call> </call> <end>"
WORDS = "search calculator submit ( ) lamp mug What do cost ? costs and 0 1 2 3 4 5 6 7 8 9 + * ="
IDS = {word: index for index, word in enumerate(f"{TAGS} {WORDS}".split())}


def ids(text: str) -> list[int]:
    """Ids of words separated by blanks."""
    return [IDS[word] for word in text.split()]


def span(role: str, text: str) -> TokenSpan:
    """A context span whose tags are scaffold."""
    return TokenSpan(ids(text), role, [not word.startswith("<") for word in text.split()])


def action(turn: int, text: str, version: str) -> PolicyAction:
    """A sampled reply; every third token is a surprise."""
    sampled = ids(text)
    logprobs = [-1.5 - 0.1 * turn if index % 3 == 2 else -0.02 for index in range(len(sampled))]
    return PolicyAction(turn, sampled, logprobs, version, text, stop_reason="stop")


def rollout(step: int, task: int, member: int, success: bool) -> Trajectory:
    """Three turns: search, calculate, submit."""
    name, version = f"shop-{step:03d}-{task:02d}", f"v{step}"
    trajectory = Trajectory(
        f"run/{step}/{name}/{member}/0",
        name,
        "shop-1",
        "tokenizer-1",
        group_id=f"{step}/{name}",
        step=step,
        member=member,
        prompt=[
            span("system", "<sys> search calculator submit </sys>"),
            span("user", "<user> What do 3 lamp cost ? </user> <assistant>"),
        ],
    )
    found = [ToolResult("c0", content="17")]
    trajectory.append(
        action(0, "<call> search ( lamp ) </call> <end>", version),
        TransitionRecord(
            0, None, {"format": 0.05}, results=found, observation=[span("tool", "<tool> lamp costs 1 7 </tool> <assistant>")]
        ),
    )
    trajectory.append(
        action(1, "<call> calculator ( 3 * 1 7 ) </call> <end>", version),
        TransitionRecord(1, None, {"cost": -0.01}, observation=[span("tool", "<tool> 5 1 </tool> <assistant>")]),
    )
    answer = "5 1" if success else "1 5"
    trajectory.append(
        action(2, f"<call> submit ( {answer} ) </call> <end>", version),
        TransitionRecord(2, None, {"correct": float(success), "format": 0.05, "cost": -0.01}, terminated=True),
    )
    return trajectory


def place(log: EventLog, trajectory: Trajectory, step: int, advantage: float | None) -> None:
    """Store a rollout and its path through the ledger: trained with an advantage, rejected without one."""
    log.append_trajectory(trajectory, step=step, phase="train")
    name, sampled = trajectory.trajectory_id, trajectory.sampled_tokens
    log.append_ledger(name, "launched", step=step)
    log.append_ledger(name, "finished", step=step, sampled=sampled)
    if advantage is None:
        log.append_ledger(name, "rejected", step=step, reason="group without signal")
    else:
        log.append_ledger(name, "admitted", step=step)
        log.append_ledger(name, "trained", step=step, trained=sampled, detail={"advantage": advantage})


def write_events(folder: Path, steps: int = 2, groups: int = 4, size: int = 4) -> Path:
    """Write `events.db`: group g of step s passes g + s times of `size`, as far as that goes."""
    with EventLog.create(folder / "events.db") as log, log.transaction():
        for step in range(steps):
            for task in range(groups):
                passing = min(size, task + step)
                for member in range(size):
                    mixed = 0 < passing < size
                    success = member < passing
                    advantage = (1.0 if success else -1.0) if mixed else None
                    place(log, rollout(step, task, member, success), step, advantage)
    return folder


def write_tokenizer(folder: Path, vocab: dict[str, int] | None = None) -> Path:
    """Write a word-level `tokenizer/tokenizer.json`."""
    (folder / "tokenizer").mkdir(exist_ok=True)
    found = {"model": {"type": "WordLevel", "vocab": IDS if vocab is None else vocab}, "added_tokens": []}
    (folder / "tokenizer" / "tokenizer.json").write_text(json.dumps(found), encoding="utf-8")
    return folder
