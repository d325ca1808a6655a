"""Why did this token move? `run folder, trajectory id -> Explanation`, from the recorded evidence alone; no model is loaded.

```
token -> role, mask -> turn, version -> reward, group, advantage -> behaviour and current log-probability, ratio -> verdict
      -> |dL/dl| and its share of the update
```
What the log does not hold is named in `missing`; where recorded and recomputed numbers differ, `problems` says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rosellm.roserlhf import checks
from rosellm.roserlhf.audit.explanation.evidence import Evidence, read_evidence
from rosellm.roserlhf.audit.explanation.guard_story import GuardStory, guard_stories, sentences, with_events
from rosellm.roserlhf.audit.explanation.outcome import ending_of, headline, outside, why_nothing_moved
from rosellm.roserlhf.audit.explanation.plain_json import strict
from rosellm.roserlhf.audit.explanation.reward_story import CreditStory, credit_story, recomputed_rows, tampered, trained_rows
from rosellm.roserlhf.audit.explanation.token_story import TokenStory, token_stories
from rosellm.roserlhf.audit.explanation.update_story import UpdateStory, update_stories
from rosellm.roserlhf.errors import ConfigError, RangeError
from rosellm.roserlhf.trainer.config import TrainConfig
from rosellm.roserlhf.trajectory import Trajectory


@dataclass(frozen=True)
class Explanation:
    """What one trajectory did to the policy, and why.

    `tokens` and the tokens of `updates` are those that were asked for; every other number is about the whole trajectory.
    """

    run: str
    """Run folder."""
    trajectory_id: str
    """The record."""
    task_id: str
    """Its task."""
    phase: str
    """What it was collected for."""
    step: int
    """Training step that sampled it."""
    ending: str
    """How the episode ended, with its cause."""
    headline: tuple[str, ...]
    """The story in a few sentences."""
    nothing_moved: str | None
    """Why it moved no weight; None if it took part in an update that was made."""
    tokens: tuple[TokenStory, ...]
    """Tokens of its row, or the ones asked for."""
    credit: CreditStory
    """Rewards, group and advantage."""
    guard: tuple[GuardStory, ...]
    """What the guard did about its calls."""
    updates: tuple[UpdateStory, ...]
    """One for every optimizer update in which the row took part."""
    objective: Mapping[str, Any]
    """Name of the recipe and the options of its algorithm, such as clip bounds; empty if not known."""
    missing: tuple[str, ...]
    """Quantities that cannot be told, and why."""
    problems: tuple[str, ...]
    """Contradictions between what was recorded and what follows from the records."""

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values; a number that JSON cannot say is the text `NaN`, `Infinity` or `-Infinity`."""
        found: dict[str, Any] = strict(self)
        return found

    def as_html(self) -> str:
        """Return a self-contained page; what the model wrote is escaped in it."""
        from rosellm.roserlhf.audit.explanation.page import build_page

        return build_page(self)


def explain(run: str | os.PathLike[str], trajectory_id: str, *, token: int | None = None, turn: int | None = None) -> Explanation:
    r"""Trace a trajectory's tokens to mask, version, reward, advantage, ratio, verdict and derivative.

    .. math:: \frac{\partial L}{\partial \ell_t} = -\,\frac{\partial L}{\partial x_t}\; w_t\, A

    with the token loss :math:`x_t` (:math:`\partial L/\partial x_t = 1/D` for a mean over the D tokens of the update), the weight
    :math:`w_t` that the objective gives the token (its ratio inside a clip interval, 0 where the clip binds) and the advantage A.

    Behaviour log-probabilities and rewards come from the records, current log-probabilities and the denominator from the evidence
    of each update, the derivative from autograd through the recipe's own objective. Rewards are weighted as the environment class
    says, which is imported by the name in `run.toml`. A trajectory that took part in no update has an explanation too: it says why.

    Args:
        run: run folder, finished or not.
        trajectory_id: id of a record; ids are data and never become paths.
        token: tell only the token at this position of the row, from 0.
        turn: tell only this turn: its action and the observation that answered it.

    Raises:
        RunFolderError: `run` has no event log.
        ConfigError: no such trajectory (the nearest ids are named), or `token` and `turn` both given.
        RangeError: no such token or turn.
        StoreError: the log cannot be read.

    Example:
        >>> import tempfile
        >>> from rosellm.roserlhf.store import EventLog
        >>> end = TransitionRecord(0, None, {"correct": 1.0}, terminated=True)
        >>> episode = Trajectory("run/eval/7", "task", "shop-1", "tok", [PolicyAction(0, [5, 2], [-0.7, -0.1], "v1", "hi")], [end])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with EventLog.create(folder + "/events.db") as log:
        ...         _ = log.append_trajectory(episode, step=0, phase="evaluate-greedy")
        ...     explain(folder, "run/eval/7").nothing_moved
        'It is an evaluation: it measured the policy and moved nothing.'
    """
    if token is not None and turn is not None:
        raise ConfigError(f"token and turn must not be given together, got token={token!r} and turn={turn!r}")
    evidence = read_evidence(run, trajectory_id)
    return _selected(_whole(os.fspath(run), evidence), token, turn)


def _whole(run: str, evidence: Evidence) -> Explanation:
    problems: list[str] = []
    missing = list(evidence.missing)
    trajectory = evidence.stored.trajectory
    rows = recomputed_rows(evidence, problems) if evidence.is_training else {}
    credit = credit_story(evidence, rows)
    told = _told(evidence, trajectory)
    guard = guard_stories(trajectory, told)
    tokens = with_events(told, guard)
    updates = update_stories(evidence, trained_rows(evidence, rows), missing, problems)
    nothing = why_nothing_moved(evidence, updates)
    _compare(evidence, credit, missing, problems)
    if nothing is None and not updates:
        missing.append("current log-probabilities, ratios, verdicts and derivatives: the log keeps no evidence of its updates")
    return Explanation(
        run=run,
        trajectory_id=trajectory.trajectory_id,
        task_id=trajectory.task_id,
        phase=evidence.stored.phase,
        step=evidence.stored.step,
        ending=ending_of(trajectory),
        headline=(*headline(evidence, credit, updates, tokens, nothing), *sentences(guard)),
        nothing_moved=nothing,
        tokens=tokens,
        credit=credit,
        guard=guard,
        updates=updates,
        objective=_options(evidence),
        missing=tuple(missing),
        problems=tuple(problems),
    )


def _told(evidence: Evidence, record: Trajectory) -> tuple[TokenStory, ...]:
    """Tell the tokens of one record of the rollout."""
    context = evidence.rollout.contexts.get(record.trajectory_id)
    return token_stories(record, fate=evidence.fate, outside=outside(evidence), vocabulary=evidence.vocabulary, context=context)


def _compare(evidence: Evidence, credit: CreditStory, missing: list[str], problems: list[str]) -> None:
    """Hold what was recorded against what follows from the records."""
    if credit.disagreement:
        problems.append(credit.disagreement)
    elif credit.recorded is None and credit.recomputed is not None:
        missing.append("the recorded advantage: the ledger has none, so the recomputed one is used")
    problems += tampered(evidence)
    if evidence.late_scores:
        missing.append(f"{evidence.late_scores} late score(s) are stored; the advantage does not contain them")
    record, contexts = evidence.stored.trajectory, evidence.rollout.contexts
    if record.parent is not None and record.trajectory_id not in contexts:
        missing.append("the context before its first token: it stands in the parent's record")
    said = None if evidence.fate is None else evidence.fate.entry.trained
    told = [token.trained for part in evidence.rollout.records for token in _told(evidence, part)]
    if said is not None and None not in told and said != sum(map(bool, told)):
        given = "the record gives" if len(evidence.rollout.records) == 1 else "its records give"
        problems.append(f"the ledger says that {said} tokens were trained, but {given} {sum(map(bool, told))}")


def _options(evidence: Evidence) -> dict[str, Any]:
    """Name the recipe and the options that it adds to those of every run: the ones of its algorithm."""
    if evidence.recipe is None:
        return {}
    config = evidence.recipe.config
    own = {name: getattr(config, name) for name in type(config).model_fields if name not in TrainConfig.model_fields}
    return {"recipe": config.recipe, **own}


def _selected(whole: Explanation, token: int | None, turn: int | None) -> Explanation:
    if token is None and turn is None:
        return whole
    if token is not None:
        if type(token) is not int or not 0 <= token < len(whole.tokens):
            raise checks.fail(RangeError, "token", f"be a position in [0, {len(whole.tokens)})", repr(token))
        kept: tuple[TokenStory, ...] = (whole.tokens[token],)
    else:
        turns = sorted({one.turn for one in whole.tokens if one.turn is not None})
        if type(turn) is not int or turn not in turns:
            raise checks.fail(RangeError, "turn", f"be one of {turns}", repr(turn))
        kept = tuple(one for one in whole.tokens if one.turn == turn)
    places = {one.position for one in kept}
    updates = tuple(
        replace(update, tokens=tuple(one for one in update.tokens if one.position in places)) for update in whole.updates
    )
    guard = tuple(one for one in whole.guard if places & {*range(one.first, one.end)})
    return replace(whole, tokens=kept, updates=updates, guard=guard)
