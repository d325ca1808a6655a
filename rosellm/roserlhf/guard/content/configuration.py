"""A configuration file -> acts: how tests are found and run, what runs at start, which commands stand for others.

`define` acts name the setting (`pytest addopts`, `package.json scripts.test`, `make test`), and hold its value where that changes
which tests run, how, or whether a failure counts; ordinary settings are no acts. Commands are read as shell.
"""

from __future__ import annotations

import configparser
import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.git_config import acts_of_setting
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.content.tables import table
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

LONGEST_VALUE = 400
MOST_COMMANDS = 200
_LANGUAGES = frozenset(
    {"makefile", "dockerfile", "ipynb", "pth", "ini", "cfg", "toml", "yml", "yaml", "service", "timer", "env", "cmake"}
)
_TARGET = r"(?m)^([A-Za-z0-9_./%$() -]+?)\s*::?([^=\n].*)?$"
_SHELL_OF_MAKE = (
    r"(?m)^\s*(?:override\s+|export\s+)*"
    r"(SHELL|\.SHELLFLAGS|MAKEFLAGS|CC|CXX|PYTHON|PYTEST|NODE|CARGO|GO|LD_PRELOAD|PATH|CFLAGS|LDFLAGS|DIFF|CMP)\s*[:?+]?=\s*(.*)$"
)
_TEST_TARGETS = frozenset(
    {"test", "tests", "check", "verify", "grade", "eval", "ci", "lint", "all", "unit", "integration", "validate"}
)
_YAML_RUN = r"^(\s*)(?:-\s+)?(?:run|script|command|cmd|entry|before_script|after_script|bash|sh|test|tests|args)\s*:\s*(.*)$"
_CMAKE = (
    r"(?i)\b(WILL_FAIL|PASS_REGULAR_EXPRESSION|SKIP_RETURN_CODE|SKIP_REGULAR_EXPRESSION|DISABLED|TEST_LAUNCHER|CTEST_CUSTOM\w*)\b"
)
_MAKE_KEYS = (".ignore", ".silent", ".default", ".sigexec")


def is_configuration(path: str, language: str) -> bool:
    """Say whether a file is read here."""
    name = path.rstrip("/").rpartition("/")[2].lower()
    start = name in ("sitecustomize.py", "usercustomize.py")
    return name in table("configuration")["names"] or language in _LANGUAGES or start or "/cron" in path


def acts_of_configuration(path: str, language: str, content: str, scene: Scene) -> list[Act]:
    """Return what a configuration file changes.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> text = "[pytest]\\naddopts = -q --deselect tests/a.py\\n"
        >>> found = acts_of_configuration("/app/pytest.ini", "ini", text, Scene("/app", read))
        >>> [(act.kind, act.target, act.detail) for act in found]
        [('define', 'pytest addopts', '-q --deselect tests/a.py')]
    """
    name = path.rstrip("/").rpartition("/")[2].lower()
    return list(_acts(path, name, language, content, scene))


def _acts(path: str, name: str, language: str, content: str, scene: Scene) -> Iterator[Act]:
    if name in ("sitecustomize.py", "usercustomize.py"):
        yield Act("define", name, "runs at the start of every interpreter")
        yield from scene.read("python", content, scene.inside())
    elif language == "pth":
        yield from _pth(name, content, scene)
    elif language == "makefile":
        yield from _makefile(content, scene)
    elif language == "dockerfile":
        yield from _prefixed(content, "RUN ", scene)
    elif language == "ipynb":
        yield from _notebook(content, scene)
    elif name in (".env", "environment", "ld.so.preload") or language == "env":
        yield from _environment(name, content)
    elif name == "crontab" or "/cron" in path or language in ("service", "timer"):
        yield from _scheduled(name, language, content, scene)
    elif name in ("cmakelists.txt", "ctesttestfile.cmake") or language == "cmake":
        yield from (
            Act("define", f"ctest {found.group(1)}", "test property", span=found.span())
            for found in pattern(_CMAKE).finditer(content)
        )
    elif language == "json" or name in (".mocharc", "deno.json"):
        yield from _json(name, content, scene)
    elif language == "toml":
        yield from _toml(name, content, scene)
    elif language in ("yml", "yaml"):
        yield from _yaml(name, content, scene)
    else:
        yield from _ini(name, content, scene)


def _pth(name: str, content: str, scene: Scene) -> Iterator[Act]:
    for line in content.split("\n")[:MOST_COMMANDS]:
        if line.startswith(("import ", "import\t")):
            yield Act("define", name, "runs at the start of every interpreter")
            yield from scene.read("python", line, scene.inside())
        elif line.strip() and not line.startswith("#"):
            yield Act("environment", "PYTHONPATH", f"set {resolve(line, scene)}")


def _makefile(content: str, scene: Scene) -> Iterator[Act]:
    """Yield the recipes as shell; a test target whose recipe cannot fail, and variables that replace programs, are defined."""
    for found in pattern(_SHELL_OF_MAKE).finditer(content):
        value = found.group(2).strip()
        if (
            found.group(1) in ("SHELL", ".SHELLFLAGS", "MAKEFLAGS", "LD_PRELOAD", "PYTEST")
            or "/" in value
            or "true" in value.split()
        ):
            yield Act("define", f"make {found.group(1)}", value[:LONGEST_VALUE], span=found.span())
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
        weak = [
            line
            for line in recipe
            if line.lstrip("@+").startswith("-") or pattern("".join(table("configuration")["void"])).search(line.lstrip("@-+ "))
        ]
        if weak:
            yield Act("define", f"make {target}", "; ".join(weak)[:LONGEST_VALUE])
    if commands:
        yield from scene.read("shell", "\n".join(commands).replace("$$", "$")[:50_000], scene.inside())


def _prefixed(content: str, prefix: str, scene: Scene) -> Iterator[Act]:
    commands = [line[len(prefix) :] for line in content.replace("\\\n", " ").split("\n") if line.startswith(prefix)]
    if commands:
        yield from scene.read("shell", "\n".join(commands[:MOST_COMMANDS]), scene.inside())


def _notebook(content: str, scene: Scene) -> Iterator[Act]:
    try:
        cells = json.loads(content).get("cells", [])
    except (ValueError, AttributeError, RecursionError):
        yield Act("opaque", "a notebook that is no JSON", "ipynb")
        return
    cells = [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []
    for kind, language in (("code", "python"), ("markdown", "prose")):
        sources = [cell.get("source", "") for cell in cells if cell.get("cell_type") == kind]
        text = "\n".join("".join(map(str, one)) if isinstance(one, list) else str(one) for one in sources)
        if text.strip():
            yield from (act for act in scene.read(language, text, scene.inside()) if act.kind != "text" or act.traits)


def _environment(name: str, content: str) -> Iterator[Act]:
    for line in content.split("\n")[:MOST_COMMANDS]:
        variable, equals, value = line.strip().removeprefix("export ").partition("=")
        if name == "ld.so.preload" and line.strip():
            yield Act("environment", "LD_PRELOAD", f"set {line.strip()}"[:LONGEST_VALUE])
        elif equals and not line.startswith("#"):
            yield Act("environment", variable.strip(), f"set {value.strip()}"[:LONGEST_VALUE])


def _scheduled(name: str, language: str, content: str, scene: Scene) -> Iterator[Act]:
    for line in content.split("\n")[:MOST_COMMANDS]:
        if language in ("service", "timer"):
            command = line.partition("=")[2].strip() if line.startswith("Exec") else ""
        else:
            words = line.split(None, 5)
            command = (
                words[5] if len(words) == 6 and not line.startswith("#") else line.partition(" ")[2] if line.startswith("@") else ""
            )
        if command:
            yield Act("schedule", command[:LONGEST_VALUE], "systemd" if language in ("service", "timer") else "cron")
            yield from scene.read("shell", command, scene.inside())


def _json(name: str, content: str, scene: Scene) -> Iterator[Act]:
    try:
        known = json.loads(content)
    except (ValueError, RecursionError):
        return
    if not isinstance(known, Mapping):
        return
    scripts = known.get("scripts") or known.get("tasks") if name in ("package.json", "deno.json") else None
    for key, command in list(scripts.items())[:MOST_COMMANDS] if isinstance(scripts, Mapping) else ():
        if isinstance(command, str):
            if "test" in key and pattern("".join(table("configuration")["void"])).search(command):
                yield Act("define", f"{name} scripts.{key}", command[:LONGEST_VALUE])
            if key in ("preinstall", "install", "postinstall", "prepare", "pretest", "posttest"):
                yield Act("define", f"{name} scripts.{key}", command[:LONGEST_VALUE])
            yield from scene.read("shell", command, scene.inside())
    for part in ("jest", "mocha", "ava", "vitest", "nyc"):
        if name == "package.json" and isinstance(known.get(part), Mapping):
            yield from _chosen(part, known[part])
    if name.startswith((".mocharc", "jest.config")):
        yield from _chosen("mocha" if "mocha" in name else "jest", known)
    if name == "package.json":
        for key in ("overrides", "resolutions", "imports", "exports"):
            if key in ("overrides", "resolutions", "imports") and known.get(key):
                yield Act("define", f"package.json {key}", str(known[key])[:LONGEST_VALUE])
    options = known.get("compilerOptions") if name == "tsconfig.json" else None
    if isinstance(options, Mapping) and options.get("paths"):
        yield Act("define", "tsconfig paths", str(options["paths"])[:LONGEST_VALUE])


def _chosen(runner: str, settings: Mapping[str, Any]) -> Iterator[Act]:
    """Yield the settings of a runner that choose which tests run, and how."""
    for key, value in list(settings.items())[:MOST_COMMANDS]:
        if key.replace("-", "").lower() in table("configuration")["runner"].lower().split():
            yield Act("define", f"{runner} {key}", str(value)[:LONGEST_VALUE])


def _toml(name: str, content: str, scene: Scene) -> Iterator[Act]:
    try:
        known = tomllib.loads(content)
    except (ValueError, RecursionError):
        yield from _ini(name, content, scene)
        return
    tool = known.get("tool", {})
    pytest = tool.get("pytest", {}) if isinstance(tool, Mapping) else {}
    options = pytest.get("ini_options", pytest) if isinstance(pytest, Mapping) else {}
    if isinstance(options, Mapping):
        yield from _pytest({str(key): value for key, value in options.items()})
    project = known.get("project", {})
    points = project.get("entry-points", {}) if isinstance(project, Mapping) else {}
    if isinstance(points, Mapping) and "pytest11" in points:
        yield Act("define", "pytest11 entry point", str(points["pytest11"])[:LONGEST_VALUE])
    for key in ("patch", "replace", "target", "build", "alias", "env", "source"):
        if name in ("cargo.toml", "config.toml") and known.get(key) and (key != "target" or "runner" in content):
            yield Act("define", f"cargo {key}", str(known[key])[:LONGEST_VALUE])
    for key in ("test", "lib", "bin", "bench"):
        for one in known.get(key, []) if isinstance(known.get(key), list) else [known.get(key)]:
            if name == "cargo.toml" and isinstance(one, Mapping):
                chosen = {
                    k: v
                    for k, v in one.items()
                    if (k in ("harness", "test", "doctest") and v is False) or (key == "test" and k == "path")
                }
                if chosen:
                    yield Act("define", f"cargo {key}", str(chosen)[:LONGEST_VALUE])


def _pytest(options: Mapping[str, Any]) -> Iterator[Act]:
    for key, value in options.items():
        words = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        if (key == "addopts" and pattern("".join(table("configuration")["options"])).search(words)) or (
            key in table("configuration")["pytest"].split() and not _usual(key, words)
        ):
            yield Act("define", f"pytest {key}", " ".join(words.split())[:LONGEST_VALUE])


def _usual(key: str, words: str) -> bool:
    """Say whether a value is what nearly every project has."""
    usual = {
        "testpaths": ("tests", "test"),
        "pythonpath": (".", "src"),
        "python_files": ("test_*.py", "test_*.py *_test.py"),
        "xfail_strict": ("True", "true"),
    }
    return " ".join(words.split()) in usual.get(key, ())


def _ini(name: str, content: str, scene: Scene) -> Iterator[Act]:
    reader = configparser.RawConfigParser(strict=False, allow_no_value=True, default_section="\0")
    try:
        reader.read_string(content if content.lstrip().startswith("[") else "[\1]\n" + content)
    except configparser.Error:
        return
    for section in reader.sections():
        items = {key: value or "" for key, value in reader.items(section)}
        if section in ("pytest", "tool:pytest", "tool.pytest.ini_options"):
            yield from _pytest(items)
        if section.startswith("testenv") or section == "tox":
            for key in ("commands", "commands_pre", "commands_post"):
                if items.get(key):
                    yield from scene.read("shell", items[key].strip(), scene.inside())
        if section.startswith(("alias", "core", "filter", "diff", "url")) and ("gitconfig" in name):
            for key, value in items.items():
                yield from acts_of_setting(f"{section.replace(' ', '.').replace(chr(34), '')}.{key}", value, scene)
        if section == "options.entry_points" and "pytest11" in items:
            yield Act("define", "pytest11 entry point", items["pytest11"][:LONGEST_VALUE])


def _yaml(name: str, content: str, scene: Scene) -> Iterator[Act]:
    """Yield the commands of a workflow, and the settings of a runner; without a parser of YAML, by its lines."""
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
        if "continue-on-error: true" in line or "allow_failure: true" in line:
            yield Act("define", f"{name} continue-on-error", line.strip()[:LONGEST_VALUE])
        if name.startswith(".mocharc"):
            key, _, value = line.partition(":")
            yield from _chosen("mocha", {key.strip("- "): value.strip()})
    if commands:
        yield from scene.read("shell", "\n".join(commands[:MOST_COMMANDS]), scene.inside())
