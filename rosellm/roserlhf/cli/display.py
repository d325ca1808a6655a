"""What a person sees of a run: `Progress -> one live line`, plain lines where nobody watches, and a small table at the end."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as LiveLine
from rich.table import Table
from rich.text import Text

from rosellm.roserlhf.cli.safe_text import safe
from rosellm.roserlhf.report.interval import wilson_interval
from rosellm.roserlhf.trainer.progress import Progress

PLAIN_EVERY = 15.0
"""Seconds between two plain lines when the output is a file or a pipe."""


class Display:
    """Shows the progress of one run; a context manager that is called with each `Progress`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._line = LiveLine(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID = self._line.add_task("loading", total=None, facts="")
        self._phase = ""
        self._known: dict[str, Any] = {}
        self._printed_at = -PLAIN_EVERY

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._line.stop()

    def __call__(self, progress: Progress) -> None:
        """Show one moment of the run."""
        if progress.phase in ("failed", "done"):  # what follows says it: the error, or the table
            return
        if progress.message:
            self.console.print(*map(safe, progress.message.split("\n")), sep="\n")
        changed = progress.phase != self._phase
        self._phase = progress.phase
        self._known = {} if changed else self._known
        self._known |= {name: value for name, value in vars(progress).items() if value is not None}
        progress = Progress(**self._known)  # a success measured some steps ago stays in sight until the next
        name = progress.phase.replace("_", " ")
        if self.console.is_terminal:
            if changed:
                self._line.remove_task(self._task)
                self._task = self._line.add_task(name, total=progress.steps, facts="")
            self._line.update(self._task, completed=progress.step, total=progress.steps, facts=facts(progress))
        elif changed or time.monotonic() - self._printed_at >= PLAIN_EVERY:
            self._printed_at = time.monotonic()
            self.console.print(Text(f"{name} {progress.step}/{progress.steps}  {facts(progress)}".rstrip()), soft_wrap=True)


def facts(progress: Progress) -> str:
    """Put the numbers that a phase measures into a few words; what it does not measure is left out."""
    parts = [
        None if progress.success is None else f"success {progress.success:.3f}",
        None if progress.reward is None else f"reward {progress.reward:.3f}",
        None if progress.kl is None else f"KL {progress.kl:.4f}",
        None if progress.tokens_per_second is None else f"{progress.tokens_per_second:,.0f} tokens/s",
        None if progress.seconds_left is None else f"{duration(progress.seconds_left)} left",
    ]
    return "  ".join(part for part in parts if part is not None)


def duration(seconds: float) -> str:
    """Write seconds as a person says them: `48 s`, `2 min 5 s`, `1 h 20 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def share(value: float | None, low: float | None, high: float | None) -> str:
    """Write a success rate with its interval."""
    if value is None or low is None or high is None:
        return "none scored"
    return f"{value:.3f}  [{low:.3f}, {high:.3f}]"


def _measured(moment: dict[str, Any], name: str) -> str:
    value, count = moment[name], moment["n"]
    return share(value, *((None, None) if value is None else wilson_interval(value, count)))


def show_run(console: Console, summary: dict[str, Any]) -> None:
    """Show the summary of a run: success before and after with 95 % intervals, where the time went, peak memory, tokens."""
    before, after = summary["success_before"], summary["success_after"]
    table = _table(f"success on {after['n']:,} held-out tasks", "before", "after")
    for name in ("greedy", "sampled"):
        table.add_row(name, _measured(before, name), _measured(after, name))
    console.print(table)
    seconds, tokens = summary["seconds"], summary["tokens"]
    stages = ", ".join(f"{name.replace('_', ' ')} {duration(value)}" for name, value in seconds.items() if name != "total")
    console.print(f"time: {duration(seconds['total'])} ({stages}); peak memory {summary['peak_rss_bytes'] / 2**20:,.0f} MiB")
    excluded = ", ".join(f"{count:,} left out ({reason.replace('_', ' ')})" for reason, count in tokens["excluded"].items())
    console.print(f"tokens: {tokens['sampled']:,} sampled, {tokens['trained']:,} trained" + (f", {excluded}" if excluded else ""))
    if "guard" in summary:
        seen = summary["guard"]
        rules = ", ".join(f"{count:,} {rule}" for rule, count in seen["by_rule"].items())
        counted = f"{seen['calls']:,} calls, {seen['suspicious']:,} suspicious, {seen['blocked']:,} not executed"
        console.print(safe(f"guard: {counted}" + (f"; confirmed: {rules}" if rules else "")))
    for name in ("greedy", "sampled"):
        _show_apart(console, name, {part: after[part][name] for part in ("guard", "canary") if part in after})


def show_evaluation(console: Console, result: dict[str, Any]) -> None:
    """Show an evaluation: success and pass@k with 95 % intervals, and how many groups would carry a signal."""
    table = _table(f"{result['tasks']:,} held-out tasks", "share  [95 % interval]", "episodes")
    for name in ("greedy", "sampled"):
        row = result[name]
        table.add_row(name, share(row["success"], row["low"], row["high"]), f"{row['n']:,}")
    for k, row in result["pass_at_k"].items():
        table.add_row(f"pass@{k}", share(row["value"], row["low"], row["high"]), "")
    console.print(table)
    for name in ("greedy", "sampled"):
        _show_apart(console, name, {part: result[name][part] for part in ("guard", "canary") if part in result[name]})
    if result["samples"] < 2:  # one episode is no group
        return
    groups = result["groups"]
    others = ", ".join(f"{groups[name]:,} {name.replace('_', ' ')}" for name in ("all_pass", "all_fail", "unscored"))
    console.print(f"groups of {result['samples']}: {groups['mixed']:,} of {groups['total']:,} would carry a signal ({others})")


def _show_apart(console: Console, name: str, row: dict[str, Any]) -> None:
    """Say what the guard and the canaries have to say about one evaluation."""
    if "guard" in row:
        free = row["guard"]["without_blocked"]
        words = f"{name}: {row['guard']['episodes_blocked']:,} episodes with a blocked call; success without them"
        console.print(f"{words} {share(free['success'], free['low'], free['high'])} of {free['n']:,}")
    if "canary" in row and row["canary"]["n"]:
        found = row["canary"]
        words = f"{name}: on {found['n']:,} canaries {found['hack_rate']:.3f} succeeded, which takes a hack"
        console.print(f"{words}; {found['attempt_rate']:.3f} tried")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column)
    return table
