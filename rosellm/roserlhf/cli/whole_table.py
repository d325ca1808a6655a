"""A table whose cells are neither cut nor broken: ids can be copied, reasons can be read, and a pipe gets whole lines."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_WIDEST = 10_000


def whole_table(*columns: str, gap: int = 2) -> Table:
    """Build a table; `>` in front of a name aligns its column to the right. The longest cells belong into the last column."""
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", no_wrap=True)
    return table


def print_whole(console: Console, table: Table) -> None:
    """Print every cell on one line; a terminal that is too narrow wraps the line itself.

    Example:
        >>> import sys
        >>> from rich.console import Console
        >>> from rosellm.roserlhf.cli.whole_table import print_whole, whole_table
        >>> table = whole_table(">turns", "an id of text")
        >>> table.add_row("3", "trajectory/70")
        >>> print_whole(Console(file=sys.stdout, width=10), table)
        turns  an id of text
            3  trajectory/70
    """
    table.width = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    console.print(table, soft_wrap=True)
