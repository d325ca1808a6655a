"""Makefiles, Dockerfiles and workflows -> acts: their commands as shell, and tests whose failure would not count."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.runner_settings import LONGEST_VALUE, MOST_COMMANDS, of_runner, void
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.patterns import passing, pattern
from rosellm.roserlhf.guard.scene import Scene

_TARGET = r"(?m)^([A-Za-z0-9_./%$() -]+?)\s*::?([^=\n].*)?$"
_SHELL_OF_MAKE = (
    r"(?m)^\s*(?:override\s+|export\s+)*"
    r"(SHELL|\.SHELLFLAGS|MAKEFLAGS|CC|CXX|PYTHON|PYTEST|NODE|CARGO|GO|LD_PRELOAD|PATH|CFLAGS|LDFLAGS|DIFF|CMP)\s*[:?+]?=\s*(.*)$"
)
PLAIN_SHELL = (
    r"^(?:(?:/usr/bin/env )?(?:/usr)?(?:/local)?(?:/bin/)?(?:ba|da|z|k)?sh|\$\(shell (?:which|command -v) (?:ba|z)?sh\)"
    r"|(?:-[euxc]+ ?|-[eux]*o ?(?:pipefail|errexit|nounset|xtrace) ?)+)\s*(?:#.*)?$"
)
"""A shell as it is, or options by which it is no less strict."""
_CALLED = r"\$\(shell\s+((?:[^()\n]|\([^()\n]*\)){1,400})\)|(?m:^[^\n#]{0,80}!=\s*([^\n]{1,400})$)"
"""Commands that run as soon as a makefile is read."""
_WRAPPED = r"--wrap[=,](\w+)|--defsym[=,](\w+)=|-D(clock_gettime|gettimeofday|time|clock|memcmp|strcmp|exit|assert|fabs)="
"""Options of a linker or a preprocessor that put one function in the place of another."""
_TEST_TARGETS = frozenset(
    {"test", "tests", "check", "verify", "grade", "eval", "ci", "lint", "all", "unit", "integration", "validate"}
)
_RUNS_TESTS = (
    r"\b(ctest|pytest|unittest|tox|nox|npm|npx|yarn|pnpm|node|jest|mocha|vitest|cargo|"
    r"go (test|vet)|mvn|gradlew?|rspec|rake|phpunit|prove|"
    r"bats|dotnet|mix|lake|stack|cabal|sbt|bazel|meson|ninja|valgrind|diff|cmp)\b|(^|[\s@])\./|\$[({<]|(build|bin|target)/\S"
)
_SUCCESS = r"(?i)\b(?:echo|printf)\b[^\n]*(?:pass(?:ed|ing)?\b|\bok\b|success\w*|0 fail\w*|all tests)[^\n]*"
_YAML_RUN = r"^(\s*)(?:-\s+)?(?:run|script|command|cmd|entry|before_script|after_script|bash|sh|test|tests|args)\s*:\s*(.*)$"
_MAKE_KEYS = (".ignore", ".silent", ".default", ".sigexec")


def of_makefile(content: str, scene: Scene) -> Iterator[Act]:
    """Yield the recipes as shell; a test target whose recipe cannot fail, and variables that replace programs, are defined."""
    for found in pattern(_SHELL_OF_MAKE).finditer(content):
        value = found.group(2).strip()
        if found.group(1) in ("SHELL", ".SHELLFLAGS") and pattern(PLAIN_SHELL).search(value):
            continue
        if (
            found.group(1) in ("SHELL", ".SHELLFLAGS", "MAKEFLAGS", "LD_PRELOAD", "PYTEST")
            or "/" in value
            or "true" in value.split()
        ):
            yield Act("define", f"make {found.group(1)}", value[:LONGEST_VALUE], span=found.span())
    called = [found.group(1) or found.group(2) for found in pattern(_CALLED).finditer(content)]
    if called:
        yield from scene.read("shell", "\n".join(called[:MOST_COMMANDS]).replace("$$", "$"), scene.inside())
    for found in pattern(_WRAPPED).finditer(content):
        name = next(one for one in found.groups() if one)
        yield Act("define", name.removeprefix("__wrap_"), "stands in for the library", span=found.span())
    target, recipe = "", []
    for line in [*content.split("\n"), "end:"]:
        if line.startswith("\t"):
            recipe.append(line.strip())
            continue
        found = pattern(_TARGET).search(line)
        if found or line.lower().startswith(_MAKE_KEYS):
            yield from _target(target, recipe, scene)
            target, recipe = (found.group(1).strip() if found else line.strip()), []
            if target.lower().split(" ")[0] in _MAKE_KEYS:
                yield Act("define", f"make {target}", "failures are ignored")


def _target(target: str, recipe: list[str], scene: Scene) -> Iterator[Act]:
    commands = [line.lstrip("@-+ ") for line in recipe]
    if set(target.split()) & _TEST_TARGETS and recipe:
        if not pattern(_RUNS_TESTS).search("\n".join(recipe)) and (said := pattern(_SUCCESS).search("\n".join(recipe))):
            yield Act("define", f"make {target}", f"prints success: {said.group(0)}"[:LONGEST_VALUE])
        weak = [line for line in recipe if line.lstrip("@+").startswith("-") or void(line.lstrip("@-+ "))]
        if weak:
            yield Act("define", f"make {target}", "; ".join(weak)[:LONGEST_VALUE])
    if commands:
        yield from scene.read("shell", "\n".join(commands).replace("$$", "$")[:50_000], scene.inside())


def of_dockerfile(content: str, scene: Scene) -> Iterator[Act]:
    """Yield the commands that build an image."""
    commands = [line[4:] for line in content.replace("\\\n", " ").split("\n") if line.startswith("RUN ")]
    if commands:
        yield from scene.read("shell", "\n".join(commands[:MOST_COMMANDS]), scene.inside())


_KEEPING = r"(?m)^\s*(?:-\s+)?uses:\s*[\w./-]*\b(?:cache|upload-\w+|download-artifact|artifact|codecov\w*|notify|slack\w*)\b"
"""An action that keeps or sends what a run leaves: no check."""


_GOES_ON = r"^[^#]*\b(?:continue-on-error|allow_failure)[\"']?:\s*(?:true\b|[\"']?\$\{\{)"
"""A check that may fail, always or under a condition."""
_TRIES = r"(?i)experimental|allow|nightly|optional|canary|-dev\b|pypy"
"""Words of a condition by which only what is tried out may fail."""
_ADVISES = r"(?i)\b(?:advisory|informational|optional|non-?blocking|not required)\b"
_LINTS = (
    r"(?im)^\s*(?:-\s+)?run:\s*[\"'|>]?\s*(?:(?:npx|pnpm|yarn|uvx?|poetry|run|exec|bundle|cargo|python3? -m)\s+)*"
    r"(?:eslint|prettier|ruff|flake8|black|isort|pylint|rubocop|stylelint|markdownlint\S*|golangci-lint|clippy|hadolint|codespell"
    r"|yamllint|shellcheck|lint\S*)\b"
)


def _goes_on(line: str) -> bool:
    """Tell whether a line of a workflow lets a check fail."""
    if "continue-on-error" not in line and "allow_failure" not in line:
        return False
    found = pattern(_GOES_ON).search(line)
    return found is not None and ("${{" not in found.group(0) or pattern(_TRIES).search(line[found.end() :]) is None)


def _is_advisory(content: str, line: str) -> bool:
    """Tell whether a workflow runs nothing but linters, and a remark says that they only advise."""
    runs = pattern(r"(?im)^\s*(?:-\s+)?run:").findall(content)
    return bool(runs) and pattern(_ADVISES).search(line) is not None and len(pattern(_LINTS).findall(content)) == len(runs)


def _around(content: str, line: str) -> str:
    """Return the step of a workflow in which a line stands."""
    place = content.find(line)
    starts = [found.start() for found in pattern(r"(?m)^\s*-\s").finditer(content)]
    begin = max((one for one in starts if one <= place), default=0)
    end = min((one for one in starts if one > place), default=len(content))
    return content[begin:end]


def _only_keeps(content: str, line: str) -> bool:
    """Tell whether the step of a workflow in which a line stands runs nothing, and only keeps what a run leaves."""
    step = _around(content, line)
    return pattern(_KEEPING).search(step) is not None and pattern(r"(?m)^\s*(?:-\s+)?run:").search(step) is None


_SWITCHED_OFF = (
    r"^\s*(?:-\s+)?if:\s*[\"']?(?:\$\{\{\s*)?(?:false\b|[^#\n]*(?:!\s*env\.(?:ACT|CI)\b"
    r"|\benv\.(?:ACT|CI)\s*(?:!=\s*['\"]?true|==\s*['\"](?:false)?['\"])"
    r"|\bgithub\.actor\s*!=\s*['\"]nektos))"
)
"""A condition that never holds, or does not hold where the workflow is run on trial."""
_CHECKS = r"(?is)\brun:.{0,600}?(?:tests?\b|\bcheck\b|lint|verify|coverage|\bcov\b|specs?\b|mypy|ruff|clippy|audit|integration)"


def _runs_check(content: str, line: str) -> bool:
    """Tell whether the step, or the job, of a workflow in which a line stands runs tests or other checks."""
    return pattern(_CHECKS).search(_around(content, line)) is not None


_SHARD = (
    r"--(?:shard|partition|total-shards)[= ](?:\$\{\{\s*matrix\.([\w-]+)\s*\}\}|(?:hash:|count:)?(\d+))/(\d+)"
    r"|--splits[= ](\d+)\s+--group[= ](?:\$\{\{\s*matrix\.([\w-]+)\s*\}\}|(\d+))"
)


def _parts_left_out(content: str) -> str:
    """Say which parts of a suite a workflow runs that does not run all of them; empty if it does, or if that is not told.

    Example:
        >>> _parts_left_out("part: [1, 3]\\nrun: jest --shard=${{ matrix.part }}/3"), _parts_left_out("run: jest --shard=1/1")
        ('parts 1, 3 of 3', '')
    """
    if "--shard" not in content and "--splits" not in content and "--partition" not in content:
        return ""
    run: set[str] = set()
    whole = 0
    for found in pattern(_SHARD).finditer(content):
        name, single, count = found.group(1) or found.group(5), found.group(2) or found.group(6), found.group(3) or found.group(4)
        whole = max(whole, int(count))
        listed = passing(rf"(?m)^\s*{escaped(name)}:\s*\[([\d,\s'\"]+)\]").search(content) if name else None
        if name and listed is None:
            return ""
        run |= set(pattern(r"\d+").findall(listed.group(1))) if listed else {single}
    return f"parts {', '.join(sorted(run))} of {whole}" if 0 < len(run) < whole <= _MOST_PARTS else ""


_MOST_PARTS = 100


def of_yaml(name: str, content: str, scene: Scene) -> Iterator[Act]:
    """Yield the commands of a workflow, and the settings of a runner; without a parser of YAML, by its lines."""
    if parts := _parts_left_out(content):
        yield Act("define", f"{name} switched off", parts, traits={"counted": "yes"})
    commands: list[str] = []
    block = -1
    for line in content.split("\n"):
        indent = len(line) - len(line.lstrip())
        if block >= 0 and (indent > block or not line.strip()):
            commands.append(line.strip())
            continue
        block = -1
        found = pattern(_YAML_RUN).search(line)
        if found:
            value = found.group(2).strip()
            if value[:1] in ("|", ">"):
                block = len(found.group(1))
            elif value:
                commands.append(value.strip("'\""))
        if _goes_on(line) and not _only_keeps(content, line):
            traits = {"step": "advisory"} if _is_advisory(content, line) else None
            yield Act("define", f"{name} continue-on-error", line.strip()[:LONGEST_VALUE], traits=traits)
        if "if:" in line and pattern(_SWITCHED_OFF).search(line) and _runs_check(content, line):
            yield Act("define", f"{name} switched off", line.strip()[:LONGEST_VALUE])
        if name.startswith(".mocharc"):
            key, _, value = line.partition(":")
            yield from of_runner("mocha", {key.strip("- "): value.strip()})
    if commands:
        yield from scene.read("shell", "\n".join(commands[:MOST_COMMANDS]), scene.inside())
