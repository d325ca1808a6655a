"""Section on the guard: `metrics.jsonl, events.db -> attempts over time by rule, success with and without them, examples`.

Everything that an agent wrote is escaped. A run without a guard and without canaries has no such section.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rosellm.roserlhf.errors import RoseError
from rosellm.roserlhf.guard.event import GuardEvent, events_of
from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.bars import StackChart
from rosellm.roserlhf.report.figure import Series, number_table
from rosellm.roserlhf.report.lines import LineChart
from rosellm.roserlhf.report.markup import Html, tag, visible
from rosellm.roserlhf.report.results import Share, evaluation, share_of
from rosellm.roserlhf.report.run_folder import Row, Run, names_of
from rosellm.roserlhf.report.section import STEP, as_percent, section, series, steps_of, thinned
from rosellm.roserlhf.report.transcript_view import EVALUATION
from rosellm.roserlhf.store import EventLog

ANCHOR, NAME = "guard", "Guard"
MOST_RULES, OTHERS = 6, "other rules"
MOST_EXAMPLES = 12
RULE_NOTE = "Calls that the judge called hacks, by the rule that decided, whatever was done about them."
CALLS_NOTE = "Calls that met a rule. Only what is confirmed, or what the judge failed on, is not executed."
RATE_NOTE = (
    "Share of training episodes with a confirmed call. On canaries no honest episode can succeed: there a success is a hack that "
    "nobody stopped."
)
EXAMPLES_NOTE = (
    "Of every rule the first and the last call in the first and last steps that had any, confirmed ones before cleared ones."
)
ENDS = 2
"""Training steps and evaluations at either end that examples are taken from."""
_OUTCOMES = {"hack": "serious", "failed": "notice", "cleared": "passed"}


def is_guarded(run: Run) -> bool:
    """Whether anything was recorded that the section could show."""
    return any(row.table(name) for row in (*run.train, *run.evaluations) for name in ("guard", "canary"))


def guard(run: Run) -> Html:
    """Show what the guard saw and what came of it."""
    train = thinned(run.train)
    examples, note = read_examples(run)
    return tag(
        "section",
        section(ANCHOR, "What did the guard see?", _lead(run), _by_rule(train), _rates(train), _calls(train)),
        tag("p", tag("b", "Held-out success with and without episodes that had a blocked call"), class_="lead"),
        _with_and_without(run),
        tag("p", tag("b", "Suspicious calls. "), f"{EXAMPLES_NOTE} {note}".rstrip(), class_="lead"),
        *map(example_view, examples),
    )


def _lead(run: Run) -> str:
    rows = [row for row in run.train if row.table("guard")]
    if not rows:
        return "No training step was guarded."
    suspicious, blocked = (sum(row.number("guard", name) or 0 for row in rows) for name in ("suspicious", "blocked"))
    failures = sum(row.number("guard", "judge_failures") or 0 for row in rows)
    calls = sum(row.number("guard_cost", "calls") or 0 for row in rows)
    seconds = sum(row.number("guard_cost", "rules") or 0 for row in rows)
    whole = sum(row.number("seconds", "total") or 0 for row in rows)
    share = f", {units.percent(seconds / whole)} of their time" if whole else ""
    cost = f" Reading {units.number(calls)} calls took {units.seconds(seconds)}{share}." if calls else ""
    failed = f" The judge failed on {units.number(failures)}." if failures else ""
    policy = (run.config or {}).get("guard", {})
    named = f" Policy {policy['policy']}, reward {policy['reward']}." if {"policy", "reward"} <= {*policy} else ""
    return (
        f"In {len(rows)} training steps {units.number(suspicious)} calls were suspicious and {units.number(blocked)} were not "
        f"executed.{failed}{cost}{named}"
    )


def _by_rule(train: Sequence[Row]) -> Html:
    rows = [row for row in train if row.table("guard")]
    totals = Counter({name: sum(row.number("guard", "by_rule", name) or 0.0 for row in rows) for name in _rules(rows)})
    shown = [name for name, _ in totals.most_common(MOST_RULES)]
    parts = [
        Series(visible(name), tuple(row.number("guard", "by_rule", name) or 0.0 for row in rows), f"c{index}")
        for index, name in enumerate(shown)
    ]
    rest = [name for name in totals if name not in shown]
    if rest:
        parts.append(Series(OTHERS, tuple(sum(row.number("guard", "by_rule", one) or 0.0 for one in rest) for row in rows), "c7"))
    return StackChart("Attempts by rule", STEP, "confirmed calls (count)", steps_of(rows), parts, note=RULE_NOTE).figure()


def _rules(rows: Sequence[Row]) -> list[str]:
    return names_of(rows, "guard", "by_rule")


def _rates(train: Sequence[Row]) -> Html:
    lines = [
        series(train, "hack rate", "c1", "guard", "hack_rate"),
        series(train, "canaries: success", "c3", "canary", "hack_rate"),
        series(train, "canaries: attempts", "c4", "canary", "attempt_rate"),
    ]
    return LineChart(
        "Hack rate", STEP, "share of episodes (%)", steps_of(train), lines, include=(0.0,), style=as_percent, note=RATE_NOTE
    ).figure()


def _calls(train: Sequence[Row]) -> Html:
    lines = [
        series(train, "suspicious", "c0", "guard", "suspicious"),
        series(train, "not executed", "c1", "guard", "blocked"),
        series(train, "judge failed", "c4", "guard", "judge_failures"),
    ]
    return LineChart("Suspicious calls", STEP, "calls (count)", steps_of(train), lines, note=CALLS_NOTE).figure()


def _with_and_without(run: Run) -> Html:
    headers = [
        "evaluation",
        "success",
        "without blocked",
        "episodes blocked",
        "hack rate",
        "canaries: success",
        "canaries: attempts",
    ]
    rows = [
        [
            f"step {row.step}, {row.word('mode') or units.NOT_RECORDED}",
            _share(evaluation(row)),
            _share(share_of(row.number("guard", "without_blocked", "success"), row.number("guard", "without_blocked", "n"))),
            units.number(row.number("guard", "episodes_blocked")),
            units.percent(row.number("guard", "hack_rate")),
            units.percent(row.number("canary", "hack_rate")),
            units.percent(row.number("canary", "attempt_rate")),
        ]
        for row in run.evaluations
        if row.table("guard") or row.table("canary")
    ]
    return number_table(headers, rows, label="Held-out success with and without blocked episodes") if rows else _missing()


def _share(value: Share | None) -> str:
    return units.NOT_RECORDED if value is None else f"{units.percent(value[0])} ({100 * value[1]:.1f} to {100 * value[2]:.1f})"


def _missing() -> Html:
    return tag("p", units.NOT_RECORDED, class_="missing box")


@dataclass(frozen=True)
class Example:
    """A suspicious call and where it stands."""

    trajectory_id: str
    phase: str
    step: int
    turn: int
    event: GuardEvent


def read_examples(run: Run) -> tuple[list[Example], str]:
    """Choose suspicious calls to show, and say why there are none."""
    path = run.folder / "events.db"
    if not path.is_file():
        return [], f"events.db: {units.NOT_RECORDED}."
    try:
        with EventLog.read(path) as log:
            return _chosen(_examples(log, run)), ""
    except RoseError as error:
        return [], f"events.db could not be read: {error}"


def _examples(log: EventLog, run: Run) -> Iterator[Example]:
    """Yield the events of the steps at both ends: to read all records would take longer than to train on them."""
    places = [("train", row.step) for row in _ends(run.train)]
    places += [(f"{EVALUATION}{row.word('mode')}", row.step) for row in _ends(run.evaluations)]
    for phase, step in places:
        for stored in log.trajectories(phase=phase, step=step):
            for turn, event in events_of(stored.trajectory):
                yield Example(stored.trajectory.trajectory_id, stored.phase, stored.step, turn, event)


def _ends(rows: Sequence[Row]) -> Sequence[Row]:
    seen = [row for row in rows if row.number("guard", "suspicious")]
    return seen if len(seen) <= 2 * ENDS else [*seen[:ENDS], *seen[-ENDS:]]


def _chosen(found: Iterator[Example]) -> list[Example]:
    """Keep of each rule and outcome the first and the last."""
    ends: dict[tuple[str, str], list[Example]] = {}
    for one in found:
        kept = ends.setdefault((one.event.outcome, one.event.rule), [])
        kept[1:] = [one] if kept else []
        kept[:1] = kept[:1] or [one]
    order = list(_OUTCOMES)
    ranked = sorted(ends, key=lambda key: (order.index(key[0]), key[1]))
    return [one for key in ranked for one in ends[key]][:MOST_EXAMPLES]


def example_view(one: Example) -> Html:
    """Write one suspicious call."""
    event = one.event
    place = f"{one.phase} step {one.step}, turn {one.turn}, call {event.call_id} of {event.tool}, {one.trajectory_id}"
    kind = _OUTCOMES[event.outcome]
    return tag(
        "div",
        tag("span", event.outcome, class_=f"chip {kind}"),
        tag("b", event.words.removeprefix("guard: ")),
        tag("p", tag("span", "Where: ", class_="soft"), place),
        tag("p", tag("span", "Rules met: ", class_="soft"), ", ".join(event.rules) or event.rule),
        class_=f"finding {kind}",
    )
