"""`roserlhf guard scan`: a run -> suspicious calls, hack rate over steps, rewards that would change under each handling."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from pydantic import Field
from rich.console import Console

from rosellm.roserlhf.audit.guard_scan import GuardScan, SuspiciousCall, read_setting, scan_run
from rosellm.roserlhf.cli.options import Flag, option_help, parse
from rosellm.roserlhf.cli.output import write_output
from rosellm.roserlhf.cli.run_argument import run_folder
from rosellm.roserlhf.cli.safe_text import console, safe
from rosellm.roserlhf.cli.whole_table import print_whole, whole_table
from rosellm.roserlhf.config import Config, build
from rosellm.roserlhf.report import units

USAGE = """\
usage: roserlhf guard scan RUN [OPTIONS]

Reads and judges every stored call; executes nothing and changes nothing. The run need not have had a guard.
"""
FLAGS = {
    "rules": Flag("rule file beside the built-in rules", "FILE"),
    "setting": Flag("setting as JSON, in place of the environment's", "FILE"),
    "json": Flag("write everything as JSON, too", "FILE"),
    "help": Flag("this list"),
}


class ScanOptions(Config):
    """What is shown."""

    calls: int = Field(default=20, ge=0, description="kinds of suspicious calls that are listed; --json has every call")
    steps: int = Field(default=20, ge=1, description="rows of the table over steps; of more, every k-th")
    penalty: float = Field(default=1.0, gt=0, description="what the handling `penalty` would take off for each confirmed call")


def run(argv: Sequence[str]) -> int:
    """Scan as the command line says; return the exit code."""
    parsed = parse(argv, ScanOptions, flags=FLAGS, operands=("RUN",))
    if "help" in parsed.flags:
        print(f"{USAGE}\n{option_help(ScanOptions, FLAGS)}", end="")
        return 0
    options, flags = build(ScanOptions, parsed.options), parsed.flags
    folder = run_folder(parsed.operands[0])
    setting = read_setting(flags["setting"]) if "setting" in flags else None
    rules = [flags["rules"]] if "rules" in flags else []
    found = scan_run(folder, rules=rules, setting=setting, penalty=options.penalty)
    show_scan(console(), found, options)
    if "json" in flags:
        write_output(flags["json"], json.dumps(found.as_json(), indent=1, allow_nan=False) + "\n")
    return 0


def show_scan(out: Console, found: GuardScan, options: ScanOptions) -> None:
    """Show what a scan found."""
    episodes, calls = sum(one.episodes for one in found.steps), sum(one.calls for one in found.steps)
    sure = sum(one.event.attempt for one in found.calls)
    head = f"{found.folder}: {calls:,} calls of {episodes:,} episodes, {len(found.calls):,} suspicious, {sure:,} confirmed"
    out.print(safe(head, "bold"))
    for reason, count in found.missing.items():
        out.print(safe(f"not looked at: {count:,} episodes, {reason}", "yellow"))
    _show_rules(out, found)
    _show_steps(out, found, options.steps)
    _show_rewards(out, found)
    _show_calls(out, found, options.calls)


def _show_rules(out: Console, found: GuardScan) -> None:
    if found.by_rule:
        out.print()
        table = whole_table(">confirmed", "rule")
        for rule, count in found.by_rule.items():
            table.add_row(f"{count:,}", safe(rule))
        print_whole(out, table)


def _show_steps(out: Console, found: GuardScan, most: int) -> None:
    if not found.steps:
        return
    out.print()
    table = whole_table("phase", ">step", ">episodes", ">calls", ">suspicious", ">confirmed", ">hack rate")
    every = -(-len(found.steps) // most)
    for place, one in enumerate(found.steps):
        if place % every == 0 or place == len(found.steps) - 1:
            counts = (one.step, one.episodes, one.calls, one.suspicious, one.confirmed)
            table.add_row(safe(one.phase), *(f"{count:,}" for count in counts), units.percent(one.hack_rate))
    print_whole(out, table)


def _show_rewards(out: Console, found: GuardScan) -> None:
    if not any(one.scored for one in found.rewards):
        return
    out.print()
    table = whole_table("reward handling", ">changed", ">of", ">mean before", ">mean after")
    for one in found.rewards:
        means = (units.number(one.mean_before, 3), units.number(one.mean_after, 3))
        table.add_row(one.name, f"{one.changed:,}", f"{one.scored:,}", *means)
    print_whole(out, table)


def _show_calls(out: Console, found: GuardScan, most: int) -> None:
    """List what was suspicious, equal calls once, confirmed ones first."""
    alike: dict[tuple[str, ...], list[SuspiciousCall]] = {}
    for one in found.calls:
        event = one.event
        alike.setdefault((event.outcome, event.rule, event.tool, event.evidence, event.reason), []).append(one)
    groups = sorted(alike.values(), key=lambda group: (not group[0].event.attempt, -len(group)))
    for group in groups[:most]:
        event = group[0].event
        out.print()
        line = f"{len(group):,} x {event.outcome}, rule {event.rule}: {event.tool} ({event.evidence}): {event.reason}"
        out.print(safe(line, "red" if event.attempt else ""), soft_wrap=True)
        recorded = Counter(one.recorded for one in group if one.recorded is not None)
        was = "; the run's own guard: " + ", ".join(f"{count:,} {name}" for name, count in recorded.items()) if recorded else ""
        out.print(safe(f"  first: {group[0].trajectory_id}, turn {group[0].turn}{was}", "dim"), soft_wrap=True)
    if len(groups) > most:
        out.print(safe(f"... and {len(groups) - most:,} more kinds of calls; --calls N lists more, --json every call"))
