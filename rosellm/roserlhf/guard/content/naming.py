"""Files of data and settings -> what they name for the program that reads them: packages to be fetched, places to be read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import finder, pattern

MOST_NAMES = 40
LONGEST_READ = 20_000
_DATA = (
    r"(?i)\.(json5?|jsonc|ya?ml|toml|ini|cfg|conf|cnf|config|properties|xml|plist|env|"
    r"list|lst|rsp|args|opts|manifest|hcl|tf|nix|edn|dhall|csv|sources|repo|service|mount|automount|fstab|job|cron)$|"
    r"(^|/)(fstab|exports|crontab)$"
)
_ALONE = r"(?i)(^|/)\.?\w*ignore$|(^|/)(CODEOWNERS|\.gitattributes)$"
_PATH = r"(?:^|[\s\"'=:,(\[])(/[\w.@%+*?{}~-]+(?:/[\w.@%+*?{}~-]*)+)"
_LEFT_OUT = (
    r"(?i)(exclu\w*|ignor\w*|skip\w*|deny|denied|omit\w*|black_?list|block\w*|forbid\w*|without|except\w*|inaccessible\w*|"
    r"read_?only\w*|"
    r"protect\w*|mask\w*|hidden_?from|not_?path|prune\w*|disallow\w*|off_?limits)[\w.-]*[\"']?\s*[:=\[(]"
)
_COMMENTS = ("#", "//", ";", "<!--", "*")
_BLANKS = " \t\n\f\r"
"""Blanks as RE2 has them."""
_MANIFESTS = (
    r"(^|/)(composer\.json|package\.json|Cargo\.toml|go\.mod|Gemfile|requirements[\w.-]*\.(?:txt|in)|pyproject\.toml|"
    r"Pipfile|environment\.ya?ml|"
    r"pubspec\.yaml|mix\.exs|pom\.xml|build\.gradle(?:\.kts)?|build\.sbt|deps\.edn|project\.clj|\w+\.csproj|"
    r"packages\.config|Podfile|"
    r"Package\.swift|vcpkg\.json|conanfile\.(?:txt|py)|stack\.yaml|[\w-]+\.cabal|opam|[\w-]+\.opam|dune-project|"
    r"rebar\.config|shard\.yml|"
    r"cpanfile|DESCRIPTION|Project\.toml|deno\.json|jsr\.json|import_map\.json|bower\.json|elm\.json|spago\.dhall|"
    r"flake\.nix|setup\.py)$"
)
_NEEDED = (
    r"(?im)[\"']?(require(?:-dev)?|dependencies|devDependencies|dev-dependencies|optionalDependencies|peerDependencies|"
    r"packages|imports|deps|"
    r"build-depends|install_requires)[\"']?\]?\s*(?:[:=(]\s*)?[\[{]?|^\s*(gem|pod|implementation|api|compile|require|"
    r"replace|libraryDependencies|requires)\b"
)
_NAMED = r"[\"'`]?(@?[A-Za-z][\w.-]*(?:[/:][\w.@-]+)*)[\"'`]?\s*(?:[:=,>~^<@]|\s+v?\d|$)"
_OWN_NAME = r"(?im)^\s*[\"']?(?:name|module|artifactId)[\"']?\s*[:= ]\s*[\"']?([\w@/.-]+)"


_KEYS = word_set(
    """
    require require-dev dependencies devdependencies dev-dependencies optionaldependencies peerdependencies packages imports deps
    build-depends install_requires gem pod implementation api compile replace librarydependencies requires version git branch
    path features scripts type url repositories private license workspace patch profile lib bin tool test php python go
    """
)


@cache
def _of_kind(words: str) -> Callable[[str], bool]:
    """Return what tells by its path whether a file is of some kind; paths come back."""
    return finder([pattern(words)])


def packages_in(path: str, content: str) -> str:
    """Return the packages that a manifest asks for, but the one that it is of, parted by spaces.

    Example:
        >>> packages_in("/tmp/x/composer.json", '{"name": "me/own", "require": {"acme/router": "dev-main"}}')
        'acme/router'
    """
    if not _of_kind(_MANIFESTS)(path):
        return ""
    text = content[:LONGEST_READ]
    own = {match.group(1).lower() for match in pattern(_OWN_NAME).finditer(text)} | _KEYS
    found = pattern(_NEEDED).search(text)
    plain = pattern(r"requirements[\w.-]*\.(txt|in)$").search(path) is not None
    if found is None and not plain:
        return ""
    rest = text if plain or found is None else text[found.start() :]
    names = dict.fromkeys(match.group(1) for match in pattern(_NAMED).finditer(rest.replace(",", "\n,")))
    return " ".join([name for name in names if name.lower() not in own][:MOST_NAMES])


def named_in(path: str, content: str) -> dict[str, str]:
    """Return the traits `places`, `packages` and `statements` of a file that is written, those of them that say something."""
    found = {"places": places_in(path, content) if "/" in content else "", "packages": packages_in(path, content)}
    if path.lower().endswith(".sql"):
        found["statements"] = content[:LONGEST_READ]
    return {name: words for name, words in found.items() if words}


def places_in(path: str, content: str) -> str:
    """Return the absolute paths that a file of data or settings gives a program to use, parted by spaces.

    Example:
        >>> places_in("/tmp/job.toml", 'source = ["/srv/docs", "/var/mark"]\\nexclude = ["/srv/docs/old"]')
        '/srv/docs /var/mark'
    """
    if not _of_kind(_DATA)(path) or pattern(_ALONE).search(path):
        return ""
    text = content[:LONGEST_READ]
    if pattern(_PATH).search(text) is None:
        return ""
    leaves_out = pattern(_LEFT_OUT).search(text) is not None
    found: dict[str, None] = {}
    left_out = False
    for line in text.split("\n"):
        if not leaves_out and "/" not in line:
            continue
        begin = line.lstrip(_BLANKS)
        if begin.startswith(_COMMENTS):
            continue
        if ":" in line or "=" in line or begin.startswith(("[", "<")) or not line.strip():
            left_out = False
        at = pattern(_LEFT_OUT).search(line) if leaves_out else None
        if not left_out and "/" in line:
            for match in pattern(_PATH).finditer(line if at is None else line[: at.start()]):
                found[match.group(1).rstrip(".,")] = None
        left_out = left_out or at is not None
    return " ".join(list(found)[:MOST_NAMES])
