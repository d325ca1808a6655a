"""`roserlhf guard evaluate`: labelled calls -> recall and precision of rules and judge, by kind, with latency."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.cli.output import write_output
from rosellm.roserlhf.cli.safe_text import console, safe
from rosellm.roserlhf.config import Config
from rosellm.roserlhf.environment.output import text_of
from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.guard.corpus import Labelled, read_calls, read_settings
from rosellm.roserlhf.guard.evaluation import Decision, evaluate
from rosellm.roserlhf.guard.rules import Rules

FLAGS = {
    "settings": Flag("the settings that the calls name, as JSON", "FILE"),
    "json": Flag("write the scores there, too", "FILE"),
    "rules": Flag("files of further rules, .toml, beside those that come with the package", "FILE..."),
    "verbose": Flag("say of every miss and every false alarm which rules it met and what the judge said"),
    "help": Flag("this list"),
}


def run(argv: Sequence[str]) -> int:
    """Score as the command line says; return 0 whenever there was something to score."""
    rest, rule_files = _without_rules(argv)
    parsed = parse(rest, Config, flags=FLAGS, operands=("CALLS",))
    if "help" in parsed.flags:
        print(f"usage: roserlhf guard evaluate CALLS --settings FILE [OPTIONS]\n\n{option_help(Config, FLAGS)}", end="")
        return 0
    if "settings" not in parsed.flags:
        raise ConfigError("--settings must name the file of the settings, got none")
    rules = Rules.read(*rule_files)
    settings = read_settings(Path(parsed.flags["settings"]))
    calls = read_calls(Path(parsed.operands[0]), settings)
    scores, decisions = evaluate(calls, settings, rules)
    if "json" in parsed.flags:
        # what UTF-8 cannot hold is written as JSON's own escape
        write_output(parsed.flags["json"], text_of(json.dumps(scores, indent=2, ensure_ascii=False)) + "\n")
    _show(scores, calls, decisions, verbose="verbose" in parsed.flags)
    return 0


def _without_rules(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take `--rules FILE...` out of a command line: it may be given several times and takes every .toml that follows."""
    rest: list[str] = []
    files: list[str] = []
    taking = False
    for place, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name == "--rules":
            if not equals and not (len(argv) > place + 1 and argv[place + 1].endswith(".toml")):
                raise ConfigError("--rules must be followed by files that end in .toml")
            files += [value] if equals else []
            taking = not equals
        elif taking and word.endswith(".toml"):
            files.append(word)
        else:
            taking = False
            rest.append(word)
    return rest, files


def _show(scores: dict[str, Any], calls: Sequence[Labelled], decisions: Sequence[Decision], *, verbose: bool) -> None:
    out = console()
    stage1, final, latency = scores["stage1"], scores["final"], scores["latency_ms"]
    hacks = sum(one.is_hack for one in calls)
    out.print(f"{len(calls):,} calls: {hacks:,} hacks of {len(scores['by_kind']):,} kinds, {len(calls) - hacks:,} honest")
    out.print(f"stage 1: recall {_number(stage1['recall'])}, honest calls flagged {_number(stage1['flagged_honest'])}")
    out.print(f"final:   recall {_number(final['recall'])}, precision {_number(final['precision'])}")
    out.print(f"stage 1 takes {_number(latency['median'])} ms (median), {_number(latency['p99'])} ms (99th percentile)")
    missed = {kind: row for kind, row in scores["by_kind"].items() if row["caught"] < row["n"]}
    if missed:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column("kinds with misses")
        table.add_column("caught", justify="right")
        for kind, row in sorted(missed.items()):
            table.add_row(safe(kind), f"{row['caught']} of {row['n']}")
        out.print(table)
    for title, name in (("misses", "misses"), ("false alarms", "false_alarms")):
        if scores[name]:
            out.print(safe(f"{title}: {', '.join(scores[name])}"))
    if verbose:
        for one, decision in zip(calls, decisions, strict=True):
            if one.is_hack != decision.is_hack:
                said = decision.verdict.reason if decision.verdict else "no rule was met"
                met = ", ".join(sorted({suspicion.rule for suspicion in decision.suspicions}))
                out.print(safe(f"{one.id} {'missed' if one.is_hack else 'false alarm'} [{met}] {said}"))


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
