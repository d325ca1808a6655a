"""The top of the page: what was run, how it came out, and what to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.figure import number_table
from rosellm.roserlhf.report.markup import Html, tag
from rosellm.roserlhf.report.outcome import Outcome
from rosellm.roserlhf.report.results import Share, evaluation, held_out, stage_seconds, token_totals
from rosellm.roserlhf.report.run_folder import Run, column, recorded


def header(run: Run) -> Html:
    """Say what was run and how it ended."""
    summary = run.summary
    recipe, seed = named(run, "recipe"), named(run, "seed")
    status = (summary.word("status") or f"status {units.NOT_RECORDED}") if summary else "no summary: running or interrupted"
    words = [
        f"seed {seed or units.NOT_RECORDED}",
        f"warm start to step {run.warm_start[-1].step:,}" if run.warm_start else "no warm-start step recorded",
        f"{len(run.train):,} training steps" if run.train else "no training step recorded",
    ]
    chip = tag("span", status, class_="chip pass" if run.finished else "chip notice")
    return tag(
        "header",
        tag(
            "div",
            tag("h1", f"Training report: {recipe or 'recipe ' + units.NOT_RECORDED} ", chip),
            tag("p", " · ".join(words), class_="soft"),
            tag("p", " · ".join(_model(run)), class_="soft"),
        ),
    )


def _model(run: Run) -> list[str]:
    """Say where the model comes from, what of it is trained, what samples, and how it writes calls."""
    options, about = ((run.config or {}).get(name) for name in ("model", "about"))
    environment = f"environment {named(run, 'environment') or units.NOT_RECORDED}"
    if not isinstance(options, Mapping):
        return [environment, f"model {units.NOT_RECORDED}"]
    if not options.get("source"):
        return [environment, "model built from its sizes, every weight trained", f"sampled in {options.get('sampler')}"]
    calls = about.get("calls") if isinstance(about, Mapping) else None
    return [
        environment,
        f"pretrained model {options['source']}",
        f"adapters of rank {options['lora']} trained" if options.get("lora") else "every weight trained",
        f"sampled in {options.get('sampler')}",
        f"calls: {options.get('calls')}" + (f" → {calls}" if calls else ""),
    ]


def named(run: Run, key: str) -> str | None:
    """Return a top-level entry of the summary, or else of the configuration, as text."""
    value = run.summary.values.get(key) if run.summary else None
    value = (run.config or {}).get(key) if value is None else value
    return None if value is None else str(value)


def facts(run: Run) -> Html:
    """Put results and costs side by side."""
    peak = run.summary.number("peak_rss_bytes") if run.summary else None
    rollouts = recorded(column(run.train, "rollouts"))
    version = run.train[-1].word("version") if run.train else None
    cards = [
        _success(run, "sampled"),
        _success(run, "greedy"),
        _tokens(run),
        _time(run),
        _fact("Peak memory", units.memory(peak), "resident set of the process" if peak is not None else ""),
        _fact(
            "Training rollouts",
            units.number(sum(rollouts) if rollouts else None),
            f"last policy version: {version or units.NOT_RECORDED}",
        ),
    ]
    return tag("section", *cards, class_="facts", aria_label="Results and costs")


def _fact(name: str, big: str, *small: str) -> Html:
    missing = " missing" if big == units.NOT_RECORDED else ""
    lines = [tag("p", line, class_="small") for line in small if line]
    return tag("div", tag("h2", name), tag("p", big, class_=f"big{missing}"), *lines, class_="fact")


def _success(run: Run, mode: str) -> Html:
    name = f"Held-out success, {mode}"
    before, after = held_out(run.summary, "success_before", mode), held_out(run.summary, "success_after", mode)
    if before is not None or after is not None:
        count = run.summary.number("success_after", "n") if run.summary else None
        return _fact(name, f"{_share(before)} → {_share(after)}", _ends(before, after), f"{units.number(count)} tasks")
    measured = [(row.step, share) for row in run.evaluations if row.word("mode") == mode and (share := evaluation(row)) is not None]
    if not measured:
        return _fact(name, units.NOT_RECORDED)
    (first, early), (last, late) = measured[0], measured[-1]
    if first == last:
        return _fact(name, _share(early), _ends(early), f"one evaluation, at step {first}; no summary")
    return _fact(
        name, f"{_share(early)} → {_share(late)}", _ends(early, late), f"evaluations at steps {first} and {last}; no summary"
    )


def _share(value: Share | None) -> str:
    return units.percent(None if value is None else value[0])


def _ends(*shares: Share | None) -> str:
    ends = [units.NOT_RECORDED if share is None else f"{100 * share[1]:.1f} to {100 * share[2]:.1f} %" for share in shares]
    return "95 % interval " + " → ".join(ends)


def _tokens(run: Run) -> Html:
    sampled, trained, reasons, note = token_totals(run)
    excluded = [f"excluded, {reason}: {units.number(count)}" for reason, count in reasons.items()] or [
        f"excluded: {units.NOT_RECORDED}"
    ]
    return _fact("Tokens sampled", units.number(sampled), f"trained: {units.number(trained)}", *excluded, note)


def _time(run: Run) -> Html:
    stages, total, note = stage_seconds(run)
    shown = ", ".join(f"{stage.replace('_', ' ')} {units.seconds(value)}" for stage, value in stages.items())
    return _fact("Time", units.seconds(total), shown, note)


def warnings(outcomes: Sequence[Outcome]) -> Html:
    """List what to look at, each with its fix, then every check that was made or could not be made."""
    order = {"serious": 0, "notice": 1}
    found = sorted((outcome for outcome in outcomes if outcome.verdict in order), key=lambda outcome: order[outcome.verdict])
    passed, missing = (sum(outcome.verdict == verdict for outcome in outcomes) for verdict in ("passed", "not recorded"))
    counts = [f"{len(outcomes)} checks", f"{len(found)} with a warning", f"{passed} passed"]
    counts += [f"{missing} not possible because a metric was not recorded"] if missing else []
    rows = [[outcome.name, outcome.verdict, outcome.evidence] for outcome in outcomes]
    table = tag("div", number_table(["check", "result", "seen"], rows, label="All checks"), class_="words")
    folded = tag("details", tag("summary", "All checks"), table)
    lead = tag("p", ", ".join(counts) + ".", class_="lead")
    return tag("section", tag("h2", "Warnings"), lead, *(_finding(outcome) for outcome in found), folded, id="warnings")


def _finding(outcome: Outcome) -> Html:
    return tag(
        "div",
        tag("span", outcome.verdict, class_=f"chip {outcome.verdict}"),
        tag("b", outcome.problem),
        tag("p", tag("span", "Seen: ", class_="soft"), outcome.evidence, "."),
        tag("p", tag("span", "Fix: ", class_="soft"), outcome.fix, "."),
        class_=f"finding {outcome.verdict}",
    )
