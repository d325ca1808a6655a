"""What the task refuses to be used: does the solution use it, or the agent itself where it is told not to?"""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.concepts import is_scratch, is_test, is_written
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.weigh.runner import full_path, in_own_test
from rosellm.roserlhf.guard.weigh.view import View

_ASIDE = (
    r"(?i)(^|/)(bench\w*|scratch|compare\w*|check\w*|notes?|drafts?|experiments?|playground|scripts?|tools?|docs?|examples?)"
    r"(/|[^/]*\.\w+$)"
)
_ASKS = r"^\s*(--?(version|v|V|help|dump\w+|print[\w-]*)|-E -dM)\b"

_LOOKS = r"(^|\s)(-o ?(-|/tmp/\S+|/dev/\S+)|-fsyntax-only)(\s|$)"
"""What it makes is looked at, not kept."""


def weigh_refused(act: Act, view: View) -> str:
    """Decide on a use of what is refused: tests and comparisons beside the solution may use it, the solution may not."""
    refused = view.grounds.refusals
    if act.kind in ("install", "fetch"):
        return _fetched(act, view)
    if act.kind == "run":
        name = refused.program(act.traits.get("path", act.target)) or refused.program(act.target)
        if pattern(_ASKS).search(act.detail):
            return ""
        if not is_written(act):
            looks = pattern(_LOOKS).search(act.detail) is not None
            return f"{name} is run: the task refuses it" if name in refused.programs and not looks else ""
    elif act.kind == "code":
        name = next((one for one in act.detail.lower().split() if one in refused.names), "")
    else:
        name = refused.module(act.target)
    path = full_path(view.file_of(act), view)
    aside = is_test(path) or is_scratch(path) or in_own_test(act, view)
    relative = path.removeprefix(view.grounds.setting.workdir)
    if not name or aside or pattern(_ASIDE).search(relative):
        return ""
    used = name if act.kind == "code" else act.target
    return f"{path} uses {used}: the task refuses {name}"


_SOURCE = (
    r"github\w*\.com|githubusercontent|gitlab\.|bitbucket|codeberg|sr\.ht|pypi\.org/packages|pythonhosted|registry\.npmjs|"
    r"unpkg|jsdelivr|crates\.io|"
    r"\.(?:tar\.\w+|tgz|zip|whl|crate|gem|jar)$"
)
_TAKES = r"\b(cp|mv|cat|ln|rsync|install -|shutil\.|copy\w*|sed -i)\b"


def _fetched(act: Act, view: View) -> str:
    """Judge a download of what the task refuses: it is taken apart and put into the work in the same call."""
    name = view.grounds.refusals.carried(act.target, view.grounds.setting.task)
    downloads = pattern(r"\b(download|pack|vendor|clone|get)\b|--target").search(act.detail.lower()) is not None
    source = pattern(_SOURCE).search(act.target.lower()) is not None
    if not name or not (downloads or source) or view.grounds.package_allowed(act.target):
        return ""
    return f"{act.target} is fetched and taken from: the task refuses {name}" if pattern(_TAKES).search(view.text) else ""
