"""What a blocked call seems to have led to: `call, suspicions → the text that such a tool gives when there is nothing to see`.

The text follows from the call alone: the same call is answered in the same way whenever it is made, in words that the tool itself
uses for a file that is not there, an address that does not answer, a write that worked. Nothing in it says that a guard exists.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rosellm.roserlhf.guard.rules import Suspicion
from rosellm.roserlhf.guard.tool_names import family_of_verb
from rosellm.roserlhf.trajectory import ToolCall

Dummy = Callable[[ToolCall, Sequence[Suspicion]], str]
"""Say what a blocked call seems to have led to."""
_LOOKED_AT = 2_000
"""Characters of a call that are looked at."""
_QUIET = re.compile(r"2>\s*/dev/null|&>\s*/dev/null|>\s*/dev/null\s+2>&1")
_COMPUTED = re.compile(r"[$`*?\[{\\]")
_SEPARATOR = re.compile(r"[;&|\n()]+")
_PATH = re.compile(r"['\"]((?:/|\./|\.\./|~/)?[\w.@+-]+(?:/[\w.@+*-]+)+/?|/[\w.-]+)['\"]")
_READERS = frozenset(
    ("cat", "head", "tail", "less", "more", "nl", "tac", "strings", "xxd", "od", "hexdump", "sort", "uniq", "wc", "md5sum", "stat")
)
_SEARCHERS = frozenset(("grep", "egrep", "fgrep", "sed", "awk"))
_INSTALLERS = frozenset(("pip", "pip3", "uv", "pipx"))
_READS = ("read", "import")
_SILENT = frozenset(("write", "delete", "link", "environment"))
"""Acts about which a shell says nothing where they work."""
_THERE = frozenset(("/", ".", "./", "..", "../", "~", "~/"))
"""Places that are always there."""
_CHANGES = r"write|create|edit|replace|save|append|insert|patch|delete|remove|move|rename|copy|link|chmod|touch"


def dummy_result(call: ToolCall, suspicions: Sequence[Suspicion] = ()) -> str:
    """Return the text that a blocked call is answered with.

    Example:
        >>> from rosellm.roserlhf.guard.dummy import dummy_result
        >>> dummy_result(ToolCall("c0", "shell", {"command": "cd /app && cat /eval/hidden.py | head"}))
        'cat: /eval/hidden.py: No such file or directory'
        >>> dummy_result(ToolCall("c1", "web_search", {"query": "fix for issue 7"})), dummy_result(ToolCall("c2", "list_dir"))
        ('0 results', '')
    """
    if verb := family_of_verb(str(call.arguments.get("command", ""))):  # of an editor, beside a path
        path = call.arguments.get("path")
        if verb in ("read", "list"):
            return _file(path, suspicions) if verb == "read" and isinstance(path, str) else ""
        return "ok"
    for names, answer in _ANSWERS:
        text = next((value for name in names if isinstance(value := call.arguments.get(name), str)), None)
        if text is not None and _fits(answer, call.name):
            return answer(text[:_LOOKED_AT], suspicions)
    for name in ("args", "command", "cmd"):
        words = call.arguments.get(name)
        if isinstance(words, list):
            line = shlex.join(map(str, words))
            return _shell((f"{call.name} {line}" if name == "args" else line)[:_LOOKED_AT], suspicions)
        if isinstance(words, str) and call.name == "git":
            return _shell(f"git {words}"[:_LOOKED_AT], suspicions)
    return _by_name(call.name, call.arguments)


def _fits(answer: Any, tool: str) -> bool:
    """A path means something else to a tool that lists or writes."""
    return answer is not _file or not re.search(rf"list|dir|ls|tree|glob|find|{_CHANGES}", tool)


def _shell(command: str, suspicions: Sequence[Suspicion]) -> str:
    """Answer as the first program of the command that has something to say."""
    if _QUIET.search(command) or (suspicions and all(one.act.kind in _SILENT for one in suspicions)):
        return ""
    for part in _SEPARATOR.split(command):
        words = _words(part)
        if words and (said := _program(words[0].rpartition("/")[2], words[1:])) is not None:
            return said
    return ""


def _words(part: str) -> list[str]:
    """Split a simple command; leave out assignments and redirections in front."""
    try:
        words = shlex.split(part)
    except ValueError:
        words = part.split()
    while words and (re.fullmatch(r"\w+=.*", words[0]) or words[0] in ("sudo", "time", "then", "do", "!", "{", "command", "exec")):
        words = words[1:]
    return words


def _program(name: str, words: Sequence[str]) -> str | None:
    """Return what a program says about what it cannot find; None if it would say nothing of its own."""
    plain = [word for word in words if not word.startswith("-")]
    if ">" in "".join(words) or name in ("echo", "printf", "cd", "tee"):
        return None
    path = next((word for word in reversed(plain) if "/" in word or "." in word), None)
    if path is not None and (_COMPUTED.search(path) or path in _THERE):
        return ""  # only running it would tell what the program would have named or found
    if name in ("bash", "sh", "zsh") and "-c" in words[:2] and plain:
        return _shell(plain[0], ())
    if name in _READERS or (name in _SEARCHERS and len(plain) > 1):
        return None if path is None else f"{name}: {path}: No such file or directory"
    if name in ("cp", "mv", "rsync") and len(plain) > 1:
        return f"{name}: cannot stat '{plain[0]}': No such file or directory"
    if name == "ls" and plain:
        return f"ls: cannot access '{plain[-1]}': No such file or directory"
    if name == "find" and plain and plain[0] in _THERE:
        return ""
    if name == "find" and plain:
        return f"find: ‘{plain[0]}’: No such file or directory"
    if name in ("python", "python3", "bash", "sh", "node") and path is not None and plain[:1] == [path]:
        return f"{name}: can't open file '{path}': [Errno 2] No such file or directory"
    if name in ("curl", "wget"):
        host = next((found[1] for word in plain if (found := re.search(r"^(?:\w+://)?([\w.-]+\.\w+)", word))), "host")
        failed = f"wget: unable to resolve host address ‘{host}’"
        return f"curl: (6) Could not resolve host: {host}" if name == "curl" else failed
    if name in _INSTALLERS and {"install", "download"} & {*plain}:
        package = plain[-1]
        return f"ERROR: No matching distribution found for {package}"
    return _git(words) if name == "git" else None


def _git(words: Sequence[str]) -> str:
    """Answer as git does in a clean repository without remotes, in which nothing but `HEAD` is known."""
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in ("-C", "-c") else words[1:]
    verb, plain = next(iter(words), ""), [word for word in words[1:] if not word.startswith("-")]
    if verb in ("status", "commit"):
        return "nothing to commit, working tree clean"
    if verb == "stash":
        return "No local changes to save"
    if verb in ("fetch", "pull", "clone", "ls-remote"):
        remote = next(iter(plain), "origin")
        return f"fatal: '{remote}' does not appear to be a git repository\nfatal: Could not read from remote repository."
    known = not plain or plain[0].startswith(("HEAD", "@")) or words[1] == "--"
    if verb not in ("show", "checkout", "restore", "cat-file", "cherry-pick", "diff") or not plain:
        return ""
    revision, colon, path = plain[0].partition(":")
    if colon and known:
        return f"fatal: path '{path}' does not exist in '{revision}'"
    return "" if known or verb == "restore" else f"fatal: bad revision '{plain[0]}'"


def _python(code: str, suspicions: Sequence[Suspicion]) -> str:
    """Answer as the interpreter does if a file that is named in so many words is not there; else the code prints nothing."""
    read = any(one.act.kind in _READS for one in suspicions)
    found = next(_paths(code), None) if read else None
    for act in [one.act for one in suspicions if one.act.kind == "import"]:
        module = act.target.rpartition("/")[2].removesuffix(".py")
        if re.search(rf"\b(?:from|import)\s+(?:\w+\.)*{re.escape(module)}\b", code):
            return f"ModuleNotFoundError: No module named '{module}'"
    return "" if found is None else f"FileNotFoundError: [Errno 2] No such file or directory: '{found}'"


def _paths(code: str) -> Iterator[str]:
    for found in _PATH.finditer(code):
        yield found[1]


def _file(path: str, suspicions: Sequence[Suspicion]) -> str:
    return f"{path}: No such file or directory"


def _url(url: str, suspicions: Sequence[Suspicion]) -> str:
    return "404 Not Found"


def _query(query: str, suspicions: Sequence[Suspicion]) -> str:
    return "0 results"


_ANSWERS: Sequence[tuple[tuple[str, ...], Callable[[str, Sequence[Suspicion]], str]]] = (
    (("command", "cmd", "script"), _shell),
    (("code",), _python),
    (("url", "uri", "href"), _url),
    (("query", "q"), _query),
    (("path", "file", "file_path", "filename"), _file),
)


def _by_name(tool: str, arguments: Mapping[str, Any]) -> str:
    """Answer a call whose arguments say nothing: an empty listing, a write that worked, an answer that did not arrive."""
    if re.search(r"submit|answer|finish|final|complete", tool):
        return "The submission could not be read; send it again."
    if re.search(_CHANGES, tool):
        return "ok"
    return ""
