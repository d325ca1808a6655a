"""Package managers: what they install, download and show, without versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell import command as commands
from rosellm.roserlhf.guard.shell.file import act_on, read_path, write_path
from rosellm.roserlhf.guard.shell.language import code_from_stdin, script, unknown_program
from rosellm.roserlhf.guard.shell.manifests import set_in_manifest
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.value import ANYTHING, Value, names

_VERSION: Final = re.compile(r"(?:\[[^\]]*\])?(?:\s*(?:[=!<>~]=?=?|===).*|@(?:[\^~]?v?\d.*|latest|next|\w+)|==.*|\s*;.*)?$")
_VCS: Final = re.compile(
    r"^(?:[\w.-]+\s*@\s*)?(?:(?:git|hg|svn|bzr)\+)?((?:https?|ssh|git|file|ftp)://\S+|git@\S+)$|^(?:github|gitlab|bitbucket|"
    r"gist):(\S+)$"
)
_LOCAL: Final = re.compile(r"^(?:\.{0,2}/|~|\.$|\.\[|\.\.$)|\.(?:whl|tgz|crate|gem|deb|rpm|zip|tar\.\w+)$")


_COORDINATES: Final = re.compile(r"^[a-z][\w-]*(?:\.[\w-]+)+:[\w.-]+(?::[\w.:-]+)?$")


@dataclass(frozen=True, slots=True)
class Manager:
    """How a package manager is called."""

    installs: frozenset[str]
    """Verbs that install or download packages, or show them in a way that gives their content or address."""
    values: frozenset[str]
    """Options that take a value."""
    files: frozenset[str] = frozenset(["-r", "--requirement", "--constraint", "--file"])
    """Options whose value is a file of packages."""
    packages: frozenset[str] = frozenset()
    """Options whose value is a package."""
    runs: frozenset[str] = frozenset()
    """Verbs behind which a command stands."""
    verbless: bool = False
    """Every operand is a package and nothing is a verb."""


_PIP: Final = Manager(
    names("install download wheel"),
    names(
        """-r --requirement -c --constraint -i --index-url --extra-index-url --find-links -t --target -d --dest --prefix --root
        --python --only-binary --no-binary --platform --python-version --implementation --abi --proxy --trusted-host --cache-dir
        -w --wheel-dir --log --timeout --retries -p --index --config-settings --editable -e"""
    ),
)
_NODE: Final = Manager(
    names("install i add pack view info show v download ci fetch dlx create init exec x"),
    names("--registry --prefix -C --dir --cwd --tag --cache --userconfig --workspace -w"),
    runs=names("run exec x dlx run-script"),
)
_APT: Final = Manager(
    names("install source download build-dep reinstall add -S -Sy -Syu"),
    names("-o -t -c --option --target-release"),
)
_MANAGERS: Final[dict[str, Manager]] = {
    "pip": _PIP,
    "uv": Manager(
        _PIP.installs | names("add sync"), _PIP.values | names("--group --extra"), packages=names("--with"), runs=names("run")
    ),
    "pipx": Manager(names("install run inject upgrade"), _PIP.values, packages=names("--spec")),
    "uvx": Manager(frozenset(), _PIP.values, packages=names("--from --with"), verbless=True),
    "poetry": Manager(names("add install"), names("--group -G --source -C --directory"), runs=names("run")),
    "pdm": Manager(names("add install"), names("-G --group -p --project"), runs=names("run")),
    "hatch": Manager(names("add"), frozenset(), runs=names("run")),
    "pipenv": Manager(names("install"), _PIP.values, runs=names("run")),
    "easy_install": Manager(frozenset(), _PIP.values, verbless=True),
    **dict.fromkeys(
        ["conda", "mamba", "micromamba"],
        Manager(names("install create search update"), names("-n -c -p --name --channel --prefix -f --file"), runs=names("run")),
    ),
    **dict.fromkeys(["npm", "yarn", "pnpm", "bun", "cnpm"], _NODE),
    **dict.fromkeys(
        ["npx", "bunx", "pnpx"],
        Manager(frozenset(), names("-p --package -c --call"), packages=names("-p --package"), verbless=True),
    ),
    "cargo": Manager(
        names("add install search info fetch download vendor"),
        names(
            "--git --branch --rev --path --version --features --manifest-path --target-dir --registry --index --config -j --tag -p"
        ),
    ),
    "go": Manager(
        names("get install download"), names("-o -C -modfile -mod -tags -ldflags -run -bench -count -coverprofile -cpuprofile")
    ),
    "gem": Manager(names("install fetch unpack contents open"), names("-v --version -s --source -i --install-dir")),
    "bundle": Manager(names("add install"), names("--path --gemfile"), runs=names("exec")),
    **dict.fromkeys(
        ["apt", "apt-get", "aptitude", "yum", "dnf", "zypper", "apk", "pacman", "yumdownloader", "brew", "port", "snap", "nix-env"],
        _APT,
    ),
    "composer": Manager(names("require install create-project show"), frozenset()),
    "luarocks": Manager(names("install download unpack"), names("--server --tree")),
    "cpan": Manager(frozenset(), frozenset(), verbless=True),
    "cpanm": Manager(frozenset(), names("-l -L --mirror"), verbless=True),
    "opam": Manager(names("install source"), frozenset(), runs=names("exec")),
    "cabal": Manager(names("install get unpack"), frozenset()),
    "stack": Manager(names("install unpack"), frozenset(), runs=names("exec")),
    "mix": Manager(names("hex.package"), frozenset()),
    "dotnet": Manager(names("add"), names("--version -v --source"), runs=frozenset()),
    "kaggle": Manager(
        names("download"), names("-d -c -f -p --dataset --competition"), packages=names("-d -c --dataset --competition")
    ),
    "huggingface-cli": Manager(names("download"), names("--repo-type --local-dir --revision --include --exclude")),
    "hf": Manager(names("download"), names("--repo-type --local-dir --revision --include --exclude")),
}
_NODE_MANAGERS: Final = names("npm yarn pnpm bun cnpm")
_RUNNERS: Final = names("vitest jest mocha ava tap playwright cypress tsc eslint nyc c8 react-scripts karma wtr biome")
"""Programs of a project that these managers run without a verb."""
_WORDS_BEFORE: Final = names("pip tool self global package module mod datasets competitions kernels local")


def _manager(shell: Shell, argv: list[str]) -> Value:
    name = commands.known_as(argv[0])
    manager = _MANAGERS[name]
    words = argv[1:]
    verb = ""
    operands: list[str] = []
    while words:
        word, words = words[0], words[1:]
        option, equals, glued = word.partition("=")
        if word == "--":
            operands += words
            break
        if word.startswith("-") and word not in manager.installs:
            value = glued if equals and option.startswith("--") else ""
            if (option in manager.values or option in manager.files or option in manager.packages) and not equals:
                value, words = (words[0], words[1:]) if words else ("", words)
            _option(shell, manager, name, option if equals else word, value)
        elif not verb and not manager.verbless and word not in _WORDS_BEFORE:
            verb = word
            if (verb in manager.runs and verb not in ("x", "dlx", "exec")) or (
                verb in manager.runs and name in ("bundle", "opam", "stack")
            ):
                return _run(shell, name, words)
        elif name in _NODE_MANAGERS and verb in ("exec", "x", "dlx"):
            return _run_package(shell, name, word, words)
        elif verb or manager.verbless:
            operands.append(word)
            if manager.verbless and name in ("npx", "bunx", "pnpx", "uvx"):
                return _run_package(shell, name, operands[0], words)
    if name in _NODE_MANAGERS and verb in ("exec", "x", "dlx") and operands:
        return _run_package(shell, name, operands[0], operands[1:])
    if name in _NODE_MANAGERS | {"composer"} and verb in ("pkg", "config", "set-script") and operands:
        set_in_manifest(shell, name, verb, operands)
        return ANYTHING
    if name in ("yarn", "pnpm", "bun") and verb in _RUNNERS:
        return commands.dispatch(shell, argv[argv.index(verb) :])
    if name == "composer":
        operands = [operand.replace(":", "@", 1) for operand in operands if "://" not in operand]
    if verb in manager.installs or manager.verbless:
        one = name in _NODE_MANAGERS and verb in ("view", "info", "show", "v")  # then come fields of it
        for operand in operands[:1] if one else operands:
            package(shell, operand, f"{name} {verb}".strip())
    elif verb in ("show", "files", "inspect", "contents", "depends", "policy", "info", "view"):
        for operand in operands:
            shell.act("install", _bare(operand), f"{name} {verb}")
    else:
        _other(shell, name, verb, operands)
    return ANYTHING


def _option(shell: Shell, manager: Manager, name: str, option: str, value: str) -> None:
    if not value:
        return
    if option in manager.packages:
        package(shell, value, name)
    elif option in manager.files:
        for text in read_path(shell, value, f"{name} {option}"):
            for line in text.split("\n")[:200]:
                if line.strip() and not line.startswith(("#", "-")) and line != UNKNOWN:
                    package(shell, line.strip(), f"{name} {option}")
    elif "://" in value:
        shell.read("url", value, program=name)
    elif option in ("-e", "--editable", "--find-links", "--path", "--manifest-path"):
        act_on(shell, "read", value, f"{name} {option}")
    elif (option == "-p" and name in ("conda", "mamba", "micromamba")) or option in (
        "-t",
        "--target",
        "-d",
        "--dest",
        "--prefix",
        "--root",
        "-o",
        "-w",
        "--wheel-dir",
        "--target-dir",
        "--local-dir",
        "-coverprofile",
    ):
        write_path(shell, value, f"{name} {option}", "truncate")


def package(shell: Shell, text: str, detail: str) -> None:
    """Note a package, an address or a local file that a manager takes."""
    if (found := _VCS.match(text.strip())) is not None:
        shell.read("url", found[1] or f"https://github.com/{found[2]}", program=detail)
        return
    if _LOCAL.search(text) and "://" not in text:
        act_on(shell, "read", re.sub(r"\[[^\]]*\]$", "", text), detail)
        return
    if bare := _bare(text):
        version = text[len(bare) :] if text.startswith(bare) else ""
        traits = {"version": version.strip("=@ ")} if version else {}
        shell.act("install", bare, detail, **traits)


def _bare(text: str) -> str:
    """Return a package's name without version, extras and alias.

    Example:
        >>> _bare("httpline[http2]>=3.4"), _bare("@scope/routelet@2.1"), _bare("golang.org/x/perf/cmd/benchstat@latest")
        ('httpline', '@scope/routelet', 'golang.org/x/perf/cmd/benchstat')
    """
    scope, text = ("@", text[1:]) if text.startswith("@") else ("", text)
    text = text.removeprefix("npm:")
    return scope + _VERSION.sub("", text.split(" ")[0].rpartition("::")[2])


def _run(shell: Shell, name: str, words: list[str]) -> Value:
    """`uv run pytest`, `npm run test`, `poetry run python`: a command, or a script of the project."""
    while words and words[0].startswith("-"):
        takes = words[0] in ("--with", "--python", "-p", "-n", "--group", "--extra", "--env-file", "--project", "--directory", "-C")
        if words[0] == "--with" and len(words) > 1:
            package(shell, words[1], f"{name} --with")
        words = words[2 if takes else 1 :]
    if not words:
        return code_from_stdin(shell, name, "python")
    if name in ("npm", "yarn", "pnpm", "bun", "cnpm") and not words[0].endswith((".js", ".ts", ".mjs")):
        return ANYTHING
    return script(shell, name, words, "python") if words[0].endswith(".py") else commands.dispatch(shell, words)


def _run_package(shell: Shell, name: str, operand: str, words: list[str]) -> Value:
    """`npx mocha test`, `uvx ruff`: a package that is fetched if need be, and run."""
    package(shell, operand, name)
    return commands.dispatch(shell, [re.sub(r"(?<=.)@.*", "", operand).rpartition("/")[2] or operand, *words])


def _other(shell: Shell, name: str, verb: str, operands: list[str]) -> None:
    """Other verbs: tests, builds, publishing; operands that are paths may be read."""
    if name == "go" and verb == "env":
        for operand in operands:
            variable, equals, value = operand.partition("=")
            if equals:
                shell.act("environment", variable, f"set {value}")
        return
    if name == "mix" and verb in ("run", "eval") and operands and "(" in operands[0]:
        shell.read("exs", operands[0])
        return
    if name in ("cargo", "go") and verb in ("test", "run", "build", "bench", "vet", "nextest"):
        for operand in operands:
            if operand.endswith((".go", ".rs")) or operand.startswith("/"):
                act_on(shell, "read", operand, f"{name} {verb}")
        return
    unknown_program(shell, f"{name} {verb}".strip(), operands)


def _maven(shell: Shell, argv: list[str]) -> Value:
    """`mvn dependency:get -Dartifact=g:a:v`, `cs fetch g:a:v`: artifacts that are fetched by their coordinates."""
    given = dict(word[2:].split("=", 1) for word in argv[1:] if word.startswith("-D") and "=" in word)
    found = [given[name] for name in ("artifact", "remote.artifact") if name in given]
    if "groupId" in given and "artifactId" in given:
        found.append(f"{given['groupId']}:{given['artifactId']}")
    fetches = any("dependency" in word or word in ("fetch", "launch", "resolve") for word in argv[1:])
    found += [word for word in argv[1:] if _COORDINATES.match(word)]
    for one in found if fetches or "artifact" in given else ():
        parts = one.split(":")
        traits = {"version": parts[2]} if len(parts) > 2 else {}
        shell.act("install", ":".join(parts[:2]), f"{commands.known_as(argv[0])} fetch", **traits)
    unknown_program(shell, argv[0], [word for word in argv[1:] if "=" not in word])
    return ANYTHING


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    **dict.fromkeys(_MANAGERS, _manager),
    **dict.fromkeys(["mvn", "mvnw", "cs", "coursier", "jbang"], _maven),
}
__all__ = ["READERS", "package"]
