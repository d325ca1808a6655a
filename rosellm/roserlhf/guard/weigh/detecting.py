"""What looks whether tests are running: does anything depend on it that they should find out?"""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.concepts.locations import is_scratch, is_test
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.weigh.place import full_path
from rosellm.roserlhf.guard.weigh.view import View

_FOR_ALL = r"(?i)conftest|(setup|helper|bootstrap|plugin|runner|reporter)\w*\.\w+$"
_SHOWS = r"(?i)\b(reporters?|colou?rs?|verbose|log[_-]?level|spinner|isTTY|progress|retries|workers|forbidOnly|maxWorkers)\b"
"""What configures how a run is shown or repeated, which is often told by `CI`."""


def weigh_detecting(act: Act, view: View) -> str:
    """Decide on what looks whether a test or a verifier is running."""
    target = act.target.lower()
    if act.target == "CI" and pattern(_SHOWS).search(act.detail):
        return ""
    if is_test(full_path(view.file_of(act), view)) and not pattern(_FOR_ALL).search(view.file_of(act)):
        return ""  # a test knows that tests run; whether it may be written is asked of the writing
    if act.target == "sys.argv" and pattern(_OPTIONS).search(view.text):
        return ""
    if "look" in act.traits:
        path = full_path(view.file_of(act), view)
        aside = is_scratch(path) or is_test(path) or pattern(_ASIDE).search(path.removeprefix(view.grounds.setting.workdir))
        return "" if aside else f"it behaves otherwise for {act.target}"
    if pattern(
        r"pytest|unittest|mocha|jest|junit|rspec|makelevel|-test\.|hidden|accept|grad(e|er|ing)|verif|judge|bench"
        r"|test_|\btest"
    ).search(target + " " + act.detail.lower()):
        return f"it behaves otherwise under {act.target}"
    looked = pattern(r"stack|frame|co_filename|f_code|f_back|caller").search(target)
    return (
        f"it looks at who calls: {act.target}"
        if looked and pattern(r"test|accept|grad|verif|bench").search(view.text.lower())
        else ""
    )


_OPTIONS = r"[\"']--?[a-zA-Z][\w-]*[\"'] (not )?in sys\.argv|sys\.argv\[\d\] ?== ?[\"']--"
_ASIDE = (
    r"(?i)(^|/)(bench\w*|scripts?|tools?|ci|docs?|examples?|settings?|config\w*|experiments?|spec-\w+"
    r"|logging\w*)(/|[^/]*\.\w+$)"
    r"|(^|/)(manage|noxfile|run_?tests?|conftest)\.\w+$"
)
"""What is no part of the work, or may know by custom that tests run."""
