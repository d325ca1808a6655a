"""Words that keep a check from speaking -> acts: `# noqa`, `@ts-ignore`, `pragma: no cover`, settings of linters (silencers.toml).

Acts are `define` with the target `silences checks` and the first such mark as detail. Traits: `gate`, what is kept quiet (`lint`,
`types`, `warnings`, `coverage`, `security`, joined by spaces); `count`, how many marks; `wide` (`yes`: a whole file or project is
quieted, or every finding of a line).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.tables import table
from rosellm.roserlhf.guard.hints import WRITTEN, FirstLook
from rosellm.roserlhf.guard.patterns import PatternSet, pattern

MOST = 200
LONGEST = 120
_CONFIGURES = (
    r"(?i)(^|/)(pyproject\.toml|setup\.cfg|tox\.ini|mypy\.ini|\.flake8|\.?ruff\.toml|\.pylintrc|pylintrc|\.coveragerc|"
    r"pytest\.ini|noxfile\.py"
    r"|tsconfig[\w.-]*\.json|\.?eslint[\w.]*|\.eslintrc[\w.]*|biome\.jsonc?|package\.json|\.golangci\.\w+|\.rubocop[\w.]*|"
    r"clippy\.toml|cargo\.toml"
    r"|config\.toml|cmakelists\.txt|[\w.-]+\.cmake|[gm]akefile[\w.]*|[\w.-]+\.mk|meson\.build|pom\.xml|"
    r"build\.gradle(\.kts)?|[\w.]*checkstyle[\w.]*"
    r"|[\w.]*detekt[\w.]*|phpstan[\w.-]*|psalm\.xml|phpunit[\w.]*|phpcs[\w.]*|\.swiftlint\.yml|analysis_options\.yaml|"
    r"[\w.-]+\.(csproj|props|editorconfig)"
    r"|\.editorconfig|\.clang-tidy|(jest|vitest|vite)\.config\.\w+|\.nycrc[\w.]*|pyrightconfig\.json|configure\.ac|"
    r"codecov\.ya?ml|\.?credo\.exs"
    r"|\.pre-commit-config\.yaml|\.gitlab-ci\.yml|lint[\w.-]*\.(xml|ya?ml|toml|json)|sonar-project\.properties)$|"
    r"\.github/workflows/"
)
_IGNORE_LISTS = (
    r"(?i)(^|/)(\.dialyzer_ignore\.exs|\.rubocop_todo\.yml|(phpstan|psalm|detekt|lint|ktlint|mypy|eslint|pmd|checkstyle|"
    r"swiftlint|clippy|semgrep|spotbugs)"
    r"[_-]?(baseline|suppressions?|exclusions?|ignores?)\.\w+|\.(eslint|stylelint|semgrep|gitleaks|trivy|pylint|flake8|"
    r"hadolint)ignore|\.secrets\.baseline"
    r"|eslint-suppressions\.json|suppressions\.xml)$"
)
"""Files that name findings which are not to be reported."""


_FAILED = r"(?:\?|\w*(?:rc|ret|status|code|res|result|exit|st)\w*)"
_SOFTENS = (
    rf"\bcase\s+[\"']?\$\{{?{_FAILED}\}}?[\"']?\s+in\b(?:[^\n]*\n){{0,8}}?[^\n]*?(?:\s|\||\()(?:1[23][\d?*\[][^)\n]*|\[1-9\]\S*|\*)\)"
    r"(?:[^\n;]|;[^;\n]){0,160}?(?:\n(?:[^\n;]|;[^;\n]){0,160}?){0,3}?\bexit\s+(?:0|77)\b"
    rf"|\[+\s*[\"']?\$\{{?{_FAILED}\}}?[\"']?\s+-g[te]\s+12\d\s*\]+\s*(?:&&|;\s*then\b)[^\n]*(?:\n[^\n]*){{0,2}}?\bexit\s+(?:0|77)\b"
)


def acts_of_softening(code: str) -> Iterator[Act]:
    """Yield where a shell script takes a test that fails, or is killed by a signal, for one that was skipped or that passed.

    Example:
        >>> [act.target for act in acts_of_softening('"$@"; rc=$?\\ncase $rc in 0) exit 0;; 13?) exit 77;; esac')]
        ['softens failures']
        >>> list(acts_of_softening('command -v qemu || exit 77\\n"$@"; rc=$?\\ncase $rc in 0) exit 0;; *) exit 1;; esac'))
        []
    """
    if "exit" in code and ("case" in code or "-g" in code) and (found := pattern(_SOFTENS).search(code)):
        yield Act("code", "softens failures", " ".join(found.group(0).split())[:160], span=found.span())


_SET, _LISTED = range(2)


@cache
def _paths() -> PatternSet:
    return PatternSet([_CONFIGURES, _IGNORE_LISTS], ignore_case=False)


@dataclass(frozen=True)
class Silence:
    """What some words quiet."""

    gates: frozenset[str]
    count: int
    wide: bool
    first: str


@cache
def _marks(kind: str) -> tuple[tuple[str, Any, Any], ...]:
    return tuple(
        (one["gate"], pattern(one["words"]), pattern(f"(?m){one['wide']}") if "wide" in one else None)
        for one in table("silencers")[kind]
    )


@cache
def _marked() -> FirstLook:
    """Return what tells at once which marks may stand in a text."""
    return FirstLook({1 << place: [one["words"]] for place, one in enumerate(table("silencers")["mark"])})


_MARKED = WRITTEN.add(
    r"(?i)noqa|ignore|disable|nolint|suppress|no ?cover|no branch|nocov|coverage|excl|allow|expect\(|nosonar|nopmd"
    r"|checkstyle|pragma|inspection"
    r"|no critic|nowarn|scalastyle|untyped|typed:|unsafe|mypy:|pyright:|pytype:|ts-|as (any|unknown)|flow|type_check"
    r"|-wno|-w\b|permissive|xlint"
    r"|clang-tidy|pyre-|as_error|tarpaulin|checkov|kics|cap-lints|warnings|nosec|nosem|codel?q|snyk|gitleaks|rubocop|noinspection|tfsec|trivy|lint|generated|todo|sqlfluff|ghc"
    r"|norace|sanitize|annotate|valgrind_|hg_|drd_"
)
"""Found wherever a mark is, and in little else."""


def silence_of(words: str, path: str = "") -> Silence | None:
    """Return what words quiet; those of a configuration file at `path` count as settings, too.

    Example:
        >>> found = silence_of("x = f()  # type: ignore[arg-type]\\ny = g()  # noqa")
        >>> sorted(found.gates), found.count, found.wide
        (['lint', 'types'], 2, True)
        >>> silence_of("ignore_errors = true", "/app/pyproject.toml").first, silence_of("print('ignored')")
        ('ignore_errors = true', None)
    """
    configures = path != "" and _SET in _paths().found(path)
    if not configures and _MARKED not in WRITTEN.found(words):
        return None
    gates: dict[str, None] = {}
    count, wide, first = 0, False, ""
    held = _marked().held(words)
    for place, (gate, marks, broad) in enumerate(_marks("mark")):
        if not held >> place & 1:
            continue
        found = 0
        for one in marks.finditer(words):
            first = first or one.group(0).strip()
            found += 1
            if found >= MOST:
                break
        if found:
            gates[gate] = None
            count = max(count, 0) + found
            wide = wide or (broad is not None and broad.search(words) is not None)
    if configures:
        for gate, settings, _ in _marks("setting"):
            said = settings.search(words)
            if said:
                gates[gate] = None
                count, wide, first = count + 1, True, first or said.group(0).strip()
    return Silence(frozenset(gates), count, wide, first[:LONGEST]) if gates else None


def is_silencing_program(command: str) -> str:
    """Return what in a command line writes silencing marks all over; empty if nothing does.

    Example:
        >>> is_silencing_program("ruff check --add-noqa src"), is_silencing_program("ruff check --fix src")
        ('--add-noqa', '')
    """
    found = pattern(table("silencers")["program"][0]["words"]).search(command)
    return found.group(0) if found else ""


def acts_of_silencing(path: str, words: str) -> Iterator[Act]:
    """Yield one act for all marks in the words that a file gains."""
    if _LISTED in _paths().found(path):
        yield Act(
            "define", "silences checks", path, traits={"gate": "lint types security", "count": "1", "wide": "yes", "in_file": path}
        )
    elif found := silence_of(words, path):
        traits = {"gate": " ".join(sorted(found.gates)), "count": str(found.count)} | ({"wide": "yes"} if found.wide else {})
        yield Act("define", "silences checks", found.first, traits={**traits, "in_file": path})
