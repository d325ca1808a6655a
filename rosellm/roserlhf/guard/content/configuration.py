"""A configuration file -> acts: how tests are found and run, what runs at start, which commands stand for others.

`define` acts name the setting (`pytest addopts`, `package.json scripts.test`, `make test`), and hold its value where that changes
which tests run, how, or whether a failure counts; ordinary settings are no acts. Commands are read as shell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.build_files import of_dockerfile, of_makefile, of_yaml
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.content.runner_settings import LONGEST_VALUE, MOST_COMMANDS, of_ini, of_json, of_toml
from rosellm.roserlhf.guard.content.tables import table
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

_LANGUAGES = frozenset(
    {"makefile", "dockerfile", "ipynb", "pth", "ini", "cfg", "toml", "yml", "yaml", "service", "timer", "env", "cmake"}
)
_CMAKE = (
    r"(?i)\b(WILL_FAIL|PASS_REGULAR_EXPRESSION|SKIP_RETURN_CODE|SKIP_REGULAR_EXPRESSION|DISABLED|TEST_LAUNCHER|CTEST_CUSTOM\w*)\b"
)
_CMAKE_VOID = (
    r"(?i)\b(?:(?:function|macro)\s*\(\s*_*(add_test|enable_testing|\w*discover_tests|include)\b"
    r"|(COMMAND)\s+\"?(?:\$\{CMAKE_COMMAND\}\"?\s+-E\s+(?:true|echo|sleep)|(?:/usr)?(?:/bin/)?true|:|echo)\b"
    r"|set_tests_properties\([^)]*\b(TIMEOUT)\s+0\b)"
)


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
        yield from of_makefile(content, scene)
    elif language == "dockerfile":
        yield from of_dockerfile(content, scene)
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
        if pattern(r"(?i)add_test|enable_testing|discover_tests|set_tests").search(content):
            for found in pattern(_CMAKE_VOID).finditer(content):
                what = next(one for one in found.groups() if one)
                yield Act("define", f"ctest {what}", "is overridden, or runs nothing", span=found.span())
    elif language == "json" or name in (".mocharc", "deno.json"):
        yield from of_json(name, content, scene)
    elif language == "toml":
        yield from of_toml(name, content, scene)
    elif language in ("yml", "yaml"):
        yield from of_yaml(name, content, scene)
    else:
        yield from of_ini(name, content, scene)


def _pth(name: str, content: str, scene: Scene) -> Iterator[Act]:
    for line in content.split("\n")[:MOST_COMMANDS]:
        if line.startswith(("import ", "import\t")):
            yield Act("define", name, "runs at the start of every interpreter")
            yield from scene.read("python", line, scene.inside())
        elif line.strip() and not line.startswith("#"):
            yield Act("environment", "PYTHONPATH", f"set {resolve(line, scene)}")


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
