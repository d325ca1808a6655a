"""A file that tools or test runners read by themselves -> what in it changes what others see, by a table (planted.toml).

Acts are `define`: target `start-up of curl`, `tests by ctest` or `service of the test runner`, detail the line that says so;
the trait `in_file` the path; of code that is only loaded, the trait `loads` is `yes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.tables import table
from rosellm.roserlhf.guard.patterns import PatternSet, finder, pattern

LONGEST_LINE = 200
MOST_LINES = 4


@cache
def _files() -> tuple[tuple[str, Any, Any], ...]:
    return tuple(
        (one["what"], pattern(one["tells"]), pattern(one["loads"]) if "loads" in one else None) for one in table("planted")["file"]
    )


@cache
def _names() -> PatternSet:
    return PatternSet([one["name"] for one in table("planted")["file"]], ignore_case=False)


@cache
def _any() -> Callable[[str], bool]:
    """Return what finds every path of the table, and few others."""
    planted = pattern(
        r"(^|/)[._][\w.-]*rc\b|/\.|rc$|\.(conf|config|cfg|cnf|toml|properties|mf|json|xml|ya?ml|gradle|kts|sbt|sc|exs|\w{1,2}proj|"
        r"runsettings|props|targets|ini|mod|work|tcl|cmake|ctest|py|txt|c?m?[jt]s|site|jl|rb|_pth|fish|lua)$|/meta-inf/|/mockito|"
        r"nvim|/ssh_config|/env$|environment\.d|psqlrc|\.(dist|local)$"
    )
    return finder([planted])


def acts_of_planted(path: str, content: str) -> Iterator[Act]:
    """Yield the lines of a start-up file, a service or a runner's configuration that change what others find.

    Example:
        >>> [(a.target, a.detail) for a in acts_of_planted("/root/.curlrc", "# fast\\nconnect-timeout = 3\\nurl = file:///a\\n")]
        [('start-up of curl', 'url = file:///a')]
    """
    small = path.lower()
    if not _any()(small):
        return
    for place in sorted(_names().found(small)):
        what, tells, loads = _files()[place]
        told = False
        for count, found in enumerate(tells.finditer(content)):
            if count >= MOST_LINES:
                break
            told = True
            yield Act("define", what, found.group(1).strip()[:LONGEST_LINE], span=found.span(1), traits={"in_file": path})
        first = None if told or loads is None else loads.search(content)
        if first:
            yield Act(
                "define", what, first.group(1).strip()[:LONGEST_LINE], span=first.span(1), traits={"loads": "yes", "in_file": path}
            )
