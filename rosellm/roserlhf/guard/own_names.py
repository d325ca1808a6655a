"""What the project of a setting is called, and where its source lies: `Setting -> names, addresses`."""

from __future__ import annotations

from rosellm.roserlhf.guard.clauses import clauses
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import alternatives, first_groups, passing, pattern
from rosellm.roserlhf.guard.project import named_parts, plain_name
from rosellm.roserlhf.guard.setting import Setting

_REPOSITORY = r"\b((?:github|gitlab|bitbucket|codeberg)\.(?:com|org)/[\w.-]+/[\w-]+)"
_ISSUE_IN = (
    r"\bgit(?:hub|lab) (?:issues?|tickets?|bugs?)(?: #?\d+)? (?:in|of|for|at|on) "
    r"[`'\"]?([a-z][\w.-]*/[a-z][\w-]{2,}(?:\.[\w-]{2,})*)"
)
"""The owner and the name of a repository."""
NO_NAMES = word_set(
    """
    app workspace testbed repo repository src code home project work root build tmp task tasks data challenge drafts
    main lib user package library module crate cache caches path paths system graph loader manager manifest registry
    name names directory
    """
)
_NO_WORDS = word_set(
    "of may which that is are for in with to must can and or the from by it its itself not has was as at on should will"
)


class OwnNames:
    """What the project of a setting is called: its names, and the addresses of its source."""

    def __init__(self, setting: Setting) -> None:
        task = setting.task.lower()
        self.names: set[str] = set()
        """What the project and its packages are called, as `plain_name` writes them."""
        self.sources: list[str] = []
        """Addresses of the project's source, without scheme."""
        for text in [part for one in setting.project for part in named_parts(one)]:
            small = text.strip().lower()
            if " " in small and "://" in small:
                self._add_addresses(small)
                small = small.partition("://")[0].rpartition(" ")[0].strip(" (,:;-")
                if not small:
                    continue
            if "://" in small or pattern(r"^[\w-]+(\.[\w-]+)+/\S").search(small):
                self._add_source(small.partition("://")[2] or small)
            elif not pattern(r"^v?[\d.]+$|^[0-9a-f]{7,40}$").search(small):
                self.names.add(plain_name(small))
                if small.endswith(".jl"):
                    self.names.add(plain_name(small.removesuffix(".jl")))  # as Julia installs it
                if pattern(r"^[\w-]+/[\w.-]+$").search(small):  # owner and name
                    self._add_source(f"github.com/{small}")
                if pattern(r"^[\w.-]+/[\w.-]{5,}$").search(small):
                    self.names.add(plain_name(small.partition("/")[2]))
        for match in first_groups(_REPOSITORY, refused_words(setting).lower()):
            self._add_source(match)
            host, owner, name = match.split("/")
            self.sources += [f"{owner}.github.io/{name.rstrip('.')}"] if host == "github.com" else []
        if not self.names:
            for match in first_groups(
                r"\b(?:library|package|crate|project|repository|repo|module|framework) [`'(]?([a-z@][\w.-]+(?:/[\w./-]+)?)",
                task,
            ):
                name = match.rstrip(".,/-")
                if "/" in name and "." in name.partition("/")[0]:
                    self._add_source(name)
                elif name not in _NO_WORDS:
                    self.names.add(plain_name(name))
            for match in first_groups(_ISSUE_IN, task):
                self._add_source(f"github.com/{match}")
                self.names.add(plain_name(match))
        self.names -= NO_NAMES
        words = alternatives(escaped(name) for name in sorted(self.names) if len(name) > 2)
        self._names = tuple(self.names)
        self._named = passing(f"(?:^|[^a-z0-9])(?:{words})(?:$|[^a-z0-9])") if words else None

    def _add_addresses(self, words: str) -> None:
        """Take the addresses among words for those of the project."""
        for match in first_groups(r"[a-z+]+://([^\s,;()<>\"']+)", words):
            self._add_source(match)

    def _add_source(self, address: str) -> None:
        self.sources.append(address.removeprefix("www.").rstrip("/.").removesuffix(".git"))
        parts = [part for part in self.sources[-1].split("/")[1:] if len(part) > 2 and not part.isdigit()]
        self.names.update(plain_name(part) for part in parts[-2:])

    def is_name(self, name: str) -> bool:
        """Tell whether a package or repository is the project's own."""
        return plain_name(name) in self.names

    def may_begin(self, part: str) -> bool:
        """Tell at once that no beginning of a name is the project's own."""
        return not part.isascii() or plain_name(part).startswith(self._names)

    def may_be_in(self, path: str) -> bool:
        """Tell at once that a path holds no name of the project."""
        plain = path.lower().replace("_", "-").replace(".", "-")
        for name in self._names:  # noqa: SIM110 - before every path: a third of the time
            if name in plain:
                return True
        return False

    def are_in(self, text: str) -> bool:
        """Tell whether a text names the project."""
        small = plain_name(text)
        return self._named is not None and self._named.search(small) is not None


def refused_words(setting: Setting) -> str:
    """Return the clauses of a task that forbid, and what a setting keeps from being read."""
    return "\n".join([*(one.text for one in clauses(setting.task) if one.forbids), *setting.protected_read])
