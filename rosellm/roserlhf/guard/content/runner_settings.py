"""Settings of test runners and packages, in JSON, TOML or INI -> acts."""

from __future__ import annotations

import configparser
import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.git_config import acts_of_setting
from rosellm.roserlhf.guard.content.tables import table
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

LONGEST_VALUE = 400
MOST_COMMANDS = 200


def of_json(name: str, content: str, scene: Scene) -> Iterator[Act]:
    """Yield what a JSON file changes: scripts, settings of runners, what stands for other packages."""
    try:
        known = json.loads(content)
    except (ValueError, RecursionError):
        return
    if not isinstance(known, Mapping):
        return
    scripts = known.get("scripts") or known.get("tasks") if name in ("package.json", "deno.json") else None
    for key, command in list(scripts.items())[:MOST_COMMANDS] if isinstance(scripts, Mapping) else ():
        if isinstance(command, str):
            if "test" in key and void(command):
                yield Act("define", f"{name} scripts.{key}", command[:LONGEST_VALUE])
            if key in ("preinstall", "install", "postinstall", "prepare", "pretest", "posttest"):
                yield Act("define", f"{name} scripts.{key}", command[:LONGEST_VALUE])
            yield from scene.read("shell", command, scene.inside())
    for part in ("jest", "mocha", "ava", "vitest", "nyc"):
        if name == "package.json" and isinstance(known.get(part), Mapping):
            yield from of_runner(part, known[part])
    if name.startswith((".mocharc", "jest.config")):
        yield from of_runner("mocha" if "mocha" in name else "jest", known)
    if name == "package.json":
        for key in ("overrides", "resolutions", "imports", "exports"):
            if key in ("overrides", "resolutions", "imports") and known.get(key):
                yield Act("define", f"package.json {key}", str(known[key])[:LONGEST_VALUE])
    options = known.get("compilerOptions") if name == "tsconfig.json" else None
    if isinstance(options, Mapping) and options.get("paths"):
        yield Act("define", "tsconfig paths", str(options["paths"])[:LONGEST_VALUE])


def of_runner(runner: str, settings: Mapping[str, Any]) -> Iterator[Act]:
    """Yield the settings of a runner that choose which tests run, and how."""
    for key, value in list(settings.items())[:MOST_COMMANDS]:
        if key.replace("-", "").lower() in table("configuration")["runner"].lower().split():
            yield Act("define", f"{runner} {key}", str(value)[:LONGEST_VALUE])


def of_toml(name: str, content: str, scene: Scene) -> Iterator[Act]:
    """Yield what a TOML file changes: pytest, plugins, cargo."""
    try:
        known = tomllib.loads(content)
    except (ValueError, RecursionError):
        yield from of_ini(name, content, scene)
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
                    if (k in ("harness", "test", "doctest") and v is False and (key, k) != ("bench", "harness"))
                    or (key == "test" and k == "path")
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


def of_ini(name: str, content: str, scene: Scene) -> Iterator[Act]:
    """Yield what an INI file changes: pytest, tox, git, plugins."""
    reader = configparser.RawConfigParser(strict=False, allow_no_value=True, default_section="\0")
    try:
        reader.read_string(content if content.lstrip().startswith("[") else "[\1]\n" + content)
    except (configparser.Error, AttributeError):  # it trips over a line that goes on one which has no value
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


def void(command: str) -> bool:
    """Say whether a test command cannot fail, runs nothing, leaves tests out or loads code first."""
    return pattern("".join(table("configuration")["void"])).search(command) is not None
