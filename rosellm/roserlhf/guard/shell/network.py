"""Programs that fetch: `curl`, `wget`, `git`, `ssh`, `nc` and their like; addresses go to the reader of URLs."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell import command as commands
from rosellm.roserlhf.guard.shell.braces import expanded
from rosellm.roserlhf.guard.shell.file import read_path, write_path
from rosellm.roserlhf.guard.shell.patches import apply_patch
from rosellm.roserlhf.guard.shell.program import Arguments, apply
from rosellm.roserlhf.guard.shell.shell import Shell, either, shortened
from rosellm.roserlhf.guard.shell.table import programs
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value

_HOST: Final = re.compile(r"(?i)^\s*(?:host|x-forwarded-host|:authority)\s*:\s*(\S+)")
_SENT: Final = frozenset(["-b", "--cookie", "-u", "--user", "--password", "-a", "--auth", "--oauth2-bearer"])
"""Options whose value goes with a request."""
_ITEMS: Final = frozenset(["http", "https", "xh", "xhs"])
"""Programs that take a method before the address, and items of a request behind it."""
_ADDRESS: Final = re.compile(r"""(?im)^\s*(?:--|-)?url\s*[=:\s]\s*["']?([^\s"']+)""")
_NAMES_FILES: Final = re.compile(r"^(?:ls-files|ls-tree|diff|grep|status|show|log)$")


def url(shell: Shell, text: str, program: str, **traits: str) -> Value:
    """Read an address; one of this machine's files is read, not fetched."""
    if re.match(r"(?i)\s*file:", text):
        return either(read_path(shell, one, program) for one in expanded(text.strip()))
    for one in expanded(text)[:64]:
        shell.read("url", one, program=program, **traits)
    return ANYTHING


def _said(name: str, arguments: Arguments) -> dict[str, str]:
    """Return how a request is made and what goes with it: traits `method` and `sent`, where an option says so."""
    data = [value for _, role, value in arguments.valued if role == "data"]
    words = data + [value for option, role, value in arguments.valued if role == "header" or option in _SENT]
    method = next(
        (value for option, _, value in arguments.valued if option in ("-X", "--request", "--method")), "POST" if data else ""
    )
    if name in _ITEMS:
        verbs = [one for one in arguments.operands if one.isupper() and one.isalpha()]
        items = [one for one in arguments.operands if one not in verbs][1:]
        arguments.operands[:] = [one for one in arguments.operands if one not in verbs and one not in items]
        words, method = words + items, method or (verbs[0] if verbs else "POST" if items else "")
    said = {"method": method, "sent": shortened(" ".join(words), 2_000)}
    return {key: value for key, value in said.items() if value}


def _fetch(shell: Shell, argv: list[str]) -> Value:
    name = commands.known_as(argv[0])
    spec = programs()[name]
    arguments = Arguments(spec, argv[1:])
    said = _said(name, arguments)
    addresses = [*arguments.operands, *arguments.values("address")]
    for option, role, value in arguments.valued:
        if role == "data":
            for part in value.split(";"):
                _, at, path = part.partition("@") if "@" in part[:200] else ("", "", "")
                if at and path and path != "-":
                    read_path(shell, path.lstrip("<"), f"{name} {option}")
        elif role == "header":
            if (found := _HOST.match(value)) is not None:
                shell.read("url", f"https://{found[1]}/", program=name)
            elif value.startswith("@"):
                read_path(shell, value[1:], f"{name} {option}")
        elif role == "resolve":
            shell.read("url", f"https://{value.split(':')[0].lstrip('+-')}/", program=name)
        elif role == "config":
            for text in read_path(shell, value, f"{name} {option}"):
                addresses += [found[1] for found in _ADDRESS.finditer(text)]
        elif role == "list":
            for text in read_path(shell, value, f"{name} {option}"):
                addresses += [line for line in text.split() if "." in line and line != UNKNOWN]
        elif role not in ("address", "write"):
            apply(shell, role, value, name, {}, option)
    printed: list[Value] = [
        url(shell, one if "://" in one or one.startswith("file:") else f"http://{one}", name, **said) for one in addresses
    ]
    _outputs(shell, name, arguments, addresses)
    return either(printed) if printed else NOTHING


def _outputs(shell: Shell, name: str, arguments: Arguments, addresses: list[str]) -> None:
    given = [value for value in arguments.values("write") if value != "-"]
    source = {"source": shortened(addresses[0])} if addresses else {}
    for value in given:
        write_path(shell, value, name, "truncate", given=source)
    if ("named" in arguments.flags or name == "wget") and not arguments.values("write"):
        for address in addresses:
            base = posixpath.basename(address.split("?")[0].rstrip("/"))
            if base and "://" in address:
                write_path(shell, base, name, "truncate", given={"source": shortened(address)})


def _git(shell: Shell, argv: list[str]) -> Value:
    words = argv[1:]
    verb = next(
        (word for at, word in enumerate(words) if not word.startswith("-") and (at == 0 or words[at - 1] not in ("-C", "-c"))), ""
    )
    shell.read("git", shlex.join(words))
    if verb in ("apply", "am") and shell.stdin is not None:
        apply_patch(shell, shell.stdin, [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-C"])
    if verb == "bisect" and "run" in words:
        commands.dispatch(shell, words[words.index("run") + 1 :])
    if verb == "submodule" and "foreach" in words:
        shell.evaluate(" ".join(word for word in words[words.index("foreach") + 1 :] if not word.startswith("--")), new=True)
    for at, word in enumerate(words):
        if (
            word in ("--exec", "-x", "--tree-filter", "--index-filter", "--msg-filter")
            and verb in ("rebase", "filter-branch")
            and at + 1 < len(words)
        ):
            shell.evaluate(words[at + 1], new=True)
    if "--show-toplevel" in words:
        return (shell.cwd[0] + "\n",)
    if verb == "ls-files" or (
        _NAMES_FILES.match(verb) and any(word in ("--name-only", "-l", "--files-with-matches") for word in words)
    ):
        return (f"./{UNKNOWN}\n",)
    return ANYTHING


def _ssh(shell: Shell, argv: list[str]) -> Value:
    arguments = Arguments(programs()["ssh"], argv[1:])
    for option, role, value in arguments.valued:
        apply(shell, role, value, "ssh", {}, option)
    if arguments.operands:
        host = arguments.operands[0].rpartition("@")[2]
        shell.act("fetch", host, "ssh", host=host)
        if len(arguments.operands) > 1:
            shell.act("run", "ssh", shortened(" ".join(arguments.operands[1:])), host=host)
            if host in ("localhost", "127.0.0.1", "::1"):
                shell.evaluate(" ".join(arguments.operands[1:]), new=True)
    return ANYTHING


def _netcat(shell: Shell, argv: list[str]) -> Value:
    arguments = Arguments(programs()["nc"], argv[1:])
    for option, role, value in arguments.valued:
        apply(shell, role, value, "nc", {}, option)
    if arguments.operands and "listens" not in arguments.flags:
        shell.act("fetch", ":".join(arguments.operands[:2]), "nc", host=arguments.operands[0])
    return ANYTHING


def _socat(shell: Shell, argv: list[str]) -> Value:
    for word in argv[1:]:
        kind, _, rest = word.partition(":")
        kind = kind.lower()
        if kind in ("tcp", "tcp4", "tcp6", "openssl", "ssl", "udp") or kind.endswith("-connect"):
            shell.act("fetch", rest.split(",")[0], "socat", host=rest.split(":")[0])
        elif kind in ("exec", "system"):
            shell.evaluate(rest, "socat", new=True)
        elif kind in ("file", "open", "gopen", "unix", "unix-connect"):
            read_path(shell, rest.split(",")[0], "socat")
        elif kind in ("create",):
            write_path(shell, rest.split(",")[0], "socat", "truncate")
        elif "/" in word and not word.startswith("-"):
            read_path(shell, word, "socat")
    return ANYTHING


def _gh(shell: Shell, argv: list[str]) -> Value:
    """`gh`: everything lies on the host, in the repository that is named or that of the directory."""
    arguments = Arguments(programs()["gh"], argv[1:])
    words = arguments.operands
    if words[:1] == ["api"] and len(words) > 1:
        shell.read("url", words[1] if "://" in words[1] else f"https://api.github.com/{words[1].lstrip('/')}", program="gh")
    elif words[:1] == ["search"]:
        shell.read("query", " ".join(words[2:]))
        shell.read("url", f"https://github.com/search?q={'+'.join(words[2:])}", program="gh")
    elif words and words[0] not in ("auth", "config", "completion", "help", "version", "alias", "status"):
        places = [*arguments.values("name"), *[word for word in words[1:] if re.fullmatch(r"[\w.-]+/[\w.-]+", word)]]
        rest = "/".join(words)
        shell.read("url", f"https://github.com/{places[0] if places else UNKNOWN}/{rest}", program="gh")
    return ANYTHING


_ENGINES: Final = (
    "ddgr",
    "googler",
    "surfraw",
    "sr",
    "tuxi",
    "howdoi",
    "how2",
    "s-search",
    "kagi",
    "so",
    "stackexchange",
    "bingr",
    "tldr-search",
)


def _engine(shell: Shell, argv: list[str]) -> Value:
    """Search engines of the terminal: their words, options aside, are looked for."""
    words = [word for word in argv[1:] if not word.startswith("-")]
    if words:
        shell.read("query", " ".join(words))
    return ANYTHING


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    **dict.fromkeys(
        ["curl", "wget", "aria2c", "axel", "http", "https", "xh", "lynx", "w3m", "links", "elinks", "lwp-request", "GET", "fetch"],
        _fetch,
    ),
    **dict.fromkeys(_ENGINES, _engine),
    "git": _git,
    "ssh": _ssh,
    **dict.fromkeys(["nc", "ncat", "netcat", "telnet"], _netcat),
    "socat": _socat,
    **dict.fromkeys(["gh", "glab", "hub"], _gh),
}
