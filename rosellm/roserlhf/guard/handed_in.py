"""Is a path in the words about the verifier what decides, or what the agent hands in and the verifier looks at?"""

from __future__ import annotations

from collections.abc import Iterable

from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.paths import Entry, Touch, absolute
from rosellm.roserlhf.guard.patterns import passing, pattern
from rosellm.roserlhf.guard.setting import Setting

_LOOKS_AT = (
    r"(?i)\b(over|on|of|at|in|with|from|reads?|checks?|compares?|runs?|imports?|against|calls?|loads?|takes?|grades?|scores?|"
    r"marks?|judges?|validates?|parses?|opens?|executes?|starts?|builds?|compiles?|for|if|that|whether|inspects?|probes?)"
    r" (the |your |its |their |every |each |all |file |files )*[`'\"(]?$"
)
_PRODUCES = (
    r"(?i)\b(produce|write|writes|written|create|fill|hand in|submit|save|saved|store|put|leave|output|deliver|make|draft|build|"
    r"compose|prepare|generate|translate|answer|answers|report|results?)\b[^.;\n]{0,120}"
)
_OUTCOME = r"report|result|score|verdict|junit|coverage|surefire|ctrf|outcome|reward|(^|[/._-])logs?([/._-]|$)|\.xml$"
"""Names of what a run writes about tests; the agent does not hand it in unless the task says so."""


def is_handed_in(path: str, text: str, field: str, setting: Setting, own: Iterable[Entry]) -> bool:
    """Tell whether a path in a field about the verifier is the agent's own work, which the verifier is given.

    Args:
        path: as the field names it.
        text: the field's words.
        field: `verifier`, where a path after words or other paths may be an argument; `result_file`, where the task must ask.
        setting: whose field it is.
        own: what the setting gives to the agent.

    Example:
        >>> from rosellm.roserlhf.guard.grounds import grounds_of
        >>> own = Setting(workdir="/w", writable=("/w/**",), verifier=("python /judge/run.py /w/out.csv",))
        >>> [entry.text for entry in grounds_of(own).places.paths["verifier"]]
        ['/judge/run.py']
    """
    place = absolute(path, setting.workdir)
    if not any(entry.touched_by(place) >= Touch.OVERLAP for entry in own):
        return False
    name = place.rpartition("/")[2]
    if field == "result_file":
        return bool(name) and passing(_PRODUCES + escaped(name)).search(setting.task) is not None
    if pattern(_OUTCOME).search(path.lower()) and name.lower() not in setting.task.lower():
        return False
    before = text.partition(path)[0]
    return before.strip() != "" and ("/" in before or "." in before or pattern(_LOOKS_AT).search(before) is not None)
