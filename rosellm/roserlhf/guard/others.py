"""What a setting says under keys of its own: `setting -> words beside the task`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.setting import Setting

DENIED = (
    r"block|forbid|deny|denied|prohibit|off_?limits|protected|secret|disallow|banned|private|answer|gold|oracle|"
    r"reference|solution|hidden"
)
"""In keys under which a setting says what is refused or kept."""
HOSTS = r"host|domain|site|url|network|internet"
"""Words for hosts in the name of a key."""
_FORBIDDEN_KEY = r"forbid|prohibit|disallow|banned|not_allowed|off_?limits|out_of_(scope|bounds)|must_not|do_?nt|do_not"
_ALLOWED_KEY = r"^allow|permitted|may_"
_REFUSING_KEY = rf"^(?:no|not|never|dont|don't|avoid)$|{_FORBIDDEN_KEY}"
_SENTENCE = r"\b(do|don't|not|never|no|must|may|is|are|without|only)\b"


def strings(value: object) -> Iterator[str]:
    """Yield the texts in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings(inner)


def _unpacked(task: str) -> str:
    """Return a task that is written as JSON in sentences: `no: ["network"]` becomes `No network.`

    Example:
        >>> _unpacked('{"goal": "Fix it", "no": ["network", "changing a.json"], "read": "all but b/"}').split("\\n")
        ['goal: Fix it.', 'No network.', 'No changing a.json.', 'read all but b/.']
    """
    if not task.lstrip().startswith("{"):
        return task
    try:
        held = json.loads(task)
    except ValueError:
        return task
    lines = []
    for key, value in held.items():
        name = key.replace("_", " ")
        refused = pattern(_REFUSING_KEY).search(name.lower()) is not None
        means = name if pattern(r"^(?:read|edit|write|change)$").search(name) else f"{name}:"
        lines += [f"{'No' if refused else means} {text.rstrip('.')}." for text in strings(value)]
    return "\n".join(lines)


def spoken_words(setting: Setting) -> str:
    """Return the task with what further keys of a setting say in sentences: notes, rules, what is forbidden or allowed.

    Example:
        >>> one = Setting(task="Fix it.", others={"rules": ["no forks"], "forbidden": "the web", "language": "C"})
        >>> spoken_words(one).split("\\n")
        ['Fix it.', ' no forks.', ' Do not use the web.']
    """
    said = [_unpacked(setting.task)]
    for key, value in setting.others.items():
        forbidden, allowed = pattern(_FORBIDDEN_KEY).search(key.lower()), pattern(_ALLOWED_KEY).search(key.lower())
        for text in strings(value):
            if forbidden and not pattern(HOSTS + r"|tool|package|modul|librar").search(key.lower()):
                said.append(f" {text if pattern(_SENTENCE).search(text.lower()) else f'Do not use {text}'}.")
            elif " " in text.strip() and not forbidden:
                said.append(f" {f'You may use {text}' if allowed and not pattern(_SENTENCE).search(text.lower()) else text}.")
    return "\n".join(said)
