"""Ten rollouts to read: `events.db, tokenizer.json -> chosen Transcripts`, the same ones whenever the page is built.

They come from the last training step and the first, successes and failures both, different tasks first. This is the only file of
the report that reads records; what the records do not hold (a fate, an advantage, a text) stays "not recorded".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rosellm.roserlhf.batching.rollout import Episode, Rollout, connected, rollouts_of
from rosellm.roserlhf.errors import RoseError
from rosellm.roserlhf.guard.event import event_of
from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.run_folder import Run
from rosellm.roserlhf.report.token_fate import Fate, HeldOut, blocked_places, fates, own_reason
from rosellm.roserlhf.report.transcript_view import EVALUATION, Block, Outcome, Token, Transcript
from rosellm.roserlhf.report.vocabulary import Vocabulary, read_vocabulary
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trajectory import CopySpan, PolicyAction, TokenSpan, Trajectory, TransitionRecord

COUNT = 10
QUOTA = {"last": 3, "first": 2}
"""Successes and as many failures taken of the last and of the first step, before the rest is filled up."""
SUCCESS_COMPONENT = "correct"
NOTE = (
    "Chosen by a hash of their ids, different tasks first. A success has the reward component “correct” at 1 or more or, where "
    "there is no such component, rewards that add up to more than 0. Point at a token for its id, masks, fate and log-probability."
)


def read_transcripts(run: Run) -> tuple[Sequence[Transcript], str]:
    """Choose and convert the rollouts to show.

    Args:
        run: its folder holds `events.db`, and `tokenizer/tokenizer.json` for the texts.

    Returns:
        The transcripts, last step first, and a sentence that says which they are or why there are none.
    """
    path = run.folder / "events.db"
    if not path.is_file():
        return [], f"events.db: {units.NOT_RECORDED}."
    vocabulary = read_vocabulary(run.folder / "tokenizer" / "tokenizer.json")
    try:
        with EventLog.read(path) as log:
            chosen, phase = _chosen(log, run)
            fate_of = fates(log, [one.rollout.trajectory_id for one in chosen], {one.step for one in chosen})
            transcripts = [to_transcript(one, vocabulary, fate_of.get(one.rollout.trajectory_id)) for one in chosen]
    except RoseError as error:
        return [], f"events.db could not be read: {error}"
    if not transcripts:
        return [], "events.db holds no rollout (yet)."
    steps = list(dict.fromkeys(str(one.step) for one in transcripts))
    which = f"{phase} step{'s' if len(steps) > 1 else ''} {' and '.join(steps)}"
    words = "" if vocabulary else " tokenizer/tokenizer.json could not be read, so tokens are shown as #id."
    return transcripts, f"{len(transcripts)} rollouts of {which}. {NOTE}{words}"


@dataclass(frozen=True)
class Stored:
    """A rollout and where it stands in the log."""

    rollout: Rollout
    phase: str
    step: int


def outcome_of(episode: Episode) -> Outcome:
    """Tell success from failure by the recorded rewards; None is not scored, which is neither."""
    totals = episode.reward_totals()
    if episode.is_unscored or not totals:
        return "unscored"
    judged = [totals[SUCCESS_COMPONENT]] if SUCCESS_COMPONENT in totals else list(totals.values())
    known = [value for value in judged if value is not None]
    if len(known) < len(judged):
        return "unscored"
    if SUCCESS_COMPONENT in totals:
        return "success" if known[0] >= 1 else "failure"
    return "success" if sum(known) > 0 else "failure"


def _chosen(log: EventLog, run: Run) -> tuple[list[Stored], str]:
    """Take training rollouts if there are any, else those of the evaluations."""
    for phase, known in (("train", run.train), ("evaluate-sampled", run.evaluations)):
        stored = sorted(log.sampled_tokens(phase=phase))
        steps = [step for step in stored if step in {row.step for row in known}] or stored
        if steps:
            ends = {"last": steps[-1]} | ({"first": steps[0]} if len(steps) > 1 else {})
            pools = {(end, outcome): pool for end, step in ends.items() for outcome, pool in _pools(log, phase, step).items()}
            return _picked(pools), phase
    return [], ""


def _pools(log: EventLog, phase: str, step: int) -> dict[Outcome, list[Stored]]:
    pools: dict[Outcome, list[Stored]] = {"success": [], "failure": [], "unscored": []}
    stored = list(log.trajectories(phase=phase, step=step))
    phases = {one.trajectory.trajectory_id: one.phase for one in stored}
    for rollout in rollouts_of(connected(one.trajectory for one in stored)):
        pools[outcome_of(rollout)].append(Stored(rollout, phases[rollout.trajectory_id], step))
    return {outcome: _different_tasks_first(pool) for outcome, pool in pools.items()}


def _different_tasks_first(pool: Iterable[Stored]) -> list[Stored]:
    seen: dict[str, int] = {}
    ranked = []
    for stored in sorted(pool, key=lambda one: hashlib.sha256(one.rollout.trajectory_id.encode()).digest()):
        rank = seen[stored.rollout.task_id] = seen.get(stored.rollout.task_id, -1) + 1
        ranked.append((rank, stored))
    return [stored for _, stored in sorted(ranked, key=lambda entry: entry[0])]


def _picked(pools: dict[tuple[str, Outcome], list[Stored]]) -> list[Stored]:
    """Fill the quotas, then go round the pools until there are `COUNT`; return them pool by pool."""
    taken = {key: min(len(pool), QUOTA[key[0]] if key[1] != "unscored" else 0) for key, pool in pools.items()}
    while sum(taken.values()) < COUNT:
        open_pools = [key for key, pool in pools.items() if taken[key] < len(pool)]
        if not open_pools:
            break
        for key in open_pools[: COUNT - sum(taken.values())]:
            taken[key] += 1
    return [stored for key, pool in pools.items() for stored in pool[: taken[key]]]


def to_transcript(stored: Stored, vocabulary: Vocabulary | None, fate: Fate | HeldOut | None = None) -> Transcript:
    """Convert a rollout, with what became of it where it could be trained."""
    rollout = stored.rollout
    if stored.phase.startswith(EVALUATION):
        fate = HeldOut()
    versions = [version for record in rollout.records for version in record.behavior_policy_versions]
    return Transcript(
        trajectory_id=rollout.trajectory_id,
        task_id=rollout.task_id,
        phase=stored.phase,
        step=stored.step,
        outcome=outcome_of(rollout),
        rewards=rollout.reward_totals(),
        advantage=fate.advantage if fate else None,
        fate=fate.words if fate else units.NOT_RECORDED,
        ended=_ended(rollout.records[-1]),
        versions=tuple(dict.fromkeys(versions)),
        blocks=tuple(block for record in rollout.records for block in _blocks(record, vocabulary, fate)),
    )


def _ended(trajectory: Trajectory) -> str:
    if trajectory.failure is not None:
        return f"broke off: {trajectory.failure.cause} ({trajectory.failure.blame})"
    cause = trajectory.transitions[-1].cause if trajectory.transitions else None
    return (trajectory.ending or "not ended") + (f" ({cause})" if cause else "")


def _blocks(trajectory: Trajectory, vocabulary: Vocabulary | None, fate: Fate | HeldOut | None) -> Iterator[Block]:
    if trajectory.parent is not None:
        parent = trajectory.parent
        yield Block("parent", parent.kind, (), (f"goes on before action {parent.turn} of {parent.record_id}",))
    for span in trajectory.prompt:
        yield _context(span, "prompt", vocabulary)
    blocked = blocked_places(trajectory)
    for index, action in enumerate(trajectory.actions):
        transition = trajectory.transitions[index] if index < len(trajectory.transitions) else None
        yield _action(action, transition, vocabulary, fate, blocked.get(action.turn, frozenset()))
        for span in transition.observation if transition else ():
            yield _context(span, f"turn {action.turn} · observation", vocabulary)


def _context(span: TokenSpan | CopySpan, place: str, vocabulary: Vocabulary | None) -> Block:
    if isinstance(span, CopySpan):
        return Block("copy", place, (), (f"tokens {span.start} to {span.end} of the record {span.record_id}",))
    mask = span.content_mask or [True] * len(span.token_ids)
    tokens = [
        Token(token_id, _text(token_id, vocabulary), content=content)
        for token_id, content in zip(span.token_ids, mask, strict=True)
    ]
    notes = ("sampled by a policy in another record; context here",) if span.policy else ()
    return Block(span.role, place, tuple(tokens), notes)


def _action(
    action: PolicyAction,
    transition: TransitionRecord | None,
    vocabulary: Vocabulary | None,
    fate: Fate | HeldOut | None,
    blocked: frozenset[int],
) -> Block:
    stale = [span for span in action.version_spans if span.prefix_cache == "stale"]
    tokens = []
    for index, (token_id, logprob) in enumerate(zip(action.token_ids, action.old_logprobs, strict=True)):
        is_stale = any(span.start <= index < span.end for span in stale)
        trained, excluded = fate.of_token(own_reason(is_stale, index in blocked)) if fate else (False, None)
        tokens.append(Token(token_id, _text(token_id, vocabulary), True, True, logprob, excluded, trained))
    notes = [f"stop reason: {action.stop_reason or units.NOT_RECORDED}"]
    notes += [f"text: {action.text}"] if vocabulary is None else []
    notes += _transition_notes(transition) if transition else []
    return Block("assistant", f"turn {action.turn} · action", tuple(tokens), tuple(notes))


def _transition_notes(transition: TransitionRecord) -> list[str]:
    notes = [f"tool result {result.call_id}: {result.status}, written by the {result.origin}" for result in transition.results]
    notes += [event.words for result in transition.results if (event := event_of(result)) is not None]
    named = [
        f"{name} {'not scored' if value is None else units.number(value)}" for name, value in transition.reward_components.items()
    ]
    notes += ["rewards of this turn: " + ", ".join(named)] if named else []
    ending = transition.ending
    return [*notes, ending + (f": {transition.cause}" if transition.cause else "")] if ending else notes


def _text(token_id: int, vocabulary: Vocabulary | None) -> str:
    return vocabulary.text(token_id) if vocabulary else f"#{token_id}"
