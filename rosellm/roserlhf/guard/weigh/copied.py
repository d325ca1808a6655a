"""Copies of the project beside the one that is worked on: installed, cached, vendored. Is one of them read?"""

from __future__ import annotations

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.concepts.locations import paths_of
from rosellm.roserlhf.guard.concepts.own_project import CACHES, is_project_copy
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.patterns import passing, pattern
from rosellm.roserlhf.guard.weigh.caches import is_of_others
from rosellm.roserlhf.guard.weigh.view import View

_ELSEWHERE = r"sys\.path|site-packages|dist-packages|PYTHONPATH|chdir|\bcd /|importlib\.util|spec_from|python -I|-P\b|--target"


def _imports_the_work(act: Act, view: View) -> bool:
    """Tell whether a module whose source is asked for is the one that the agent works on: nothing leads to another place."""
    name = act.traits.get("module", "").partition(".")[0]
    root = view.grounds.setting.workdir.rstrip("/")
    places = [f"{root}/{folder}{name}/__init__.py" for folder in ("", "src/", "lib/", "python/")]
    given = view.grounds.setting.own_files or view.grounds.setting.writable
    works = name and (any(map(view.grounds.places.is_own, places)) if given else view.grounds.project.is_name(name))
    return bool(works) and act.target.startswith(UNKNOWN) and not pattern(_ELSEWHERE).search(_beside_work(view))


def _beside_work(view: View) -> str:
    """Return the text of a call without the way to the working directory, which may be called like the project."""
    root = view.grounds.setting.workdir.rstrip("/")
    return str(passing(rf"\bcd {escaped(root)}/?(?:[\s;&|]|$)").sub(" ", view.text).replace(root, " ")) if root else view.text


def _may_be_released(path: str, view: View) -> bool:
    """Tell whether a path of a cache is above what the project has released there, or another package's place."""
    return not view.grounds.places.is_own(path) or "snapshot" not in view.text.lower()


def _only_looks(act: Act) -> bool:
    """Tell whether an act takes nothing along: what is copied may be changed and put in the place of the original."""
    return act.kind == "list" or pattern(r"^(?:cp|mv|rsync|install|tar|ln|shutil\.)").search(act.detail) is None


def weigh_copy(act: Act, view: View) -> str:
    """Decide on what is read, listed or linked where another copy of the project may lie."""
    grounds = view.grounds
    if act.kind == "list" and act.target.startswith(UNKNOWN):  # modules of a package, by their names
        return ""
    if act.detail.startswith("inspect.") and _imports_the_work(act, view):
        return ""
    text = _beside_work(view) if act.kind == "list" else view.text  # what is read from there may go into the work
    for path in paths_of(act):
        if is_project_copy(path, grounds):
            return f"{path} is another copy of the project"
        cached = pattern(CACHES).search(path.lower()) and grounds.project.are_in(text) and _may_be_released(path, view)
        if cached and not (is_of_others(path, grounds) and _only_looks(act)):
            return f"{path} may hold another copy of the project"
    return ""
