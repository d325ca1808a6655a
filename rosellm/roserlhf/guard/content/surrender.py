"""Code that ends its process with success where something has failed: hooks of panics, handlers of whatever is thrown, traps.

A test that fails there leaves a status that reads as a pass. Ends on an interrupt or a closed pipe are ordinary. Acts are `exit`,
target `0`, with the trait `after`: what has failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.hints import Hints, first, in_ascii, with_blanks
from rosellm.roserlhf.guard.patterns import pattern

LONGEST = 60_000
NEAR = 260
"""Characters after the beginning of a handler in which it ends the process."""
MOST = 40
_HINT = re.compile(
    r"(?i)(?:exit|halt|quit|terminate|_Exit|\bdie)\w*!?\s*\(?\s*(?:0|EXIT_SUCCESS|true|ExitCode|\.success|SystemExit|Result\.Success|\))"
    r"|SystemExit|ExitSuccess|exitCode\s*=\s*0|\bexit\b"
)
_WORDS = ("xit", "halt(", "stop(", "quit(")
"""One of these is in whatever ends a process with success."""
_HOOK = (
    r"\bset_hook\b|\bcatch_unwind\b|\brecover\(\)|\buncaughtException\w*|\bunhandledRejection\b"
    r"|\b[sg]etDefaultUncaughtExceptionHandler\b|\bUncaughtExceptionHandler\b|\bUnhandledException\b|\bUnobservedTaskException\b"
    r"|\bset_terminate\b|\bset_unexpected\b|\bset_exception_handler\b|\bset_error_handler\b|\bNSSetUncaughtExceptionHandler\b"
    r"|\b(?:sys|threading)\.(?:excepthook|unraisablehook)\b|\bSIG(?:SEGV|ABRT|FPE|ILL|BUS)\b|\$SIG\{\s*['\"]?__DIE__"
    r"|\bwindow\.onerror\b|\bset_custom_exc\b|\bpanic_handler\b|\bpanic::update_hook\b"
    r"|\bpanicking\(\)|\buncaught_exceptions?\(\)"
)
_BLOCK = (
    r"\bcatch\s*(?:\([^()\n]{0,80}\)|\w{0,20})\s*\{|\bcatch\s+\w+\s*$|\bexcept\b[^:\n]{0,80}:|\brescue\b[^\n;]{0,60}(?:[\n;]|=>)"
    r"|\.catch\(|\bcatch\s*\(\s*\.\.\.\s*\)\s*\{|\bp?call\([^\n]{0,80}|\bunwrap_or_else\(\s*\|_?\w*\||\brescue\s*->|\bwith\s+_\s*->"
)
_TRAP = (
    r"\btrap\s+'[^'\"\n]{0,80}\bexit\s+0\b[^'\"\n]{0,40}'\s+(?:ERR|EXIT|0)\b"
    r"|\btrap\s+\"[^'\"\n]{0,80}\bexit\s+0\b[^'\"\n]{0,40}\"\s+(?:ERR|EXIT|0)\b"
)
_HANDLER = re.compile(f"(?m)({_HOOK})|({_BLOCK})|({_TRAP})")
_HANDLER_ASCII = with_blanks(_HANDLER.pattern)
"""The same for RE2, which is faster."""
_HINTS = Hints(_HANDLER_ASCII, with_blanks(_HINT.pattern))
_HANDLED, _ENDED = range(2)
_SUCCESS = re.compile(
    r"\bprocess::exit\(\s*0\s*\)|\bos\.Exit\(\s*0\s*\)|\bprocess\.(?:exit|reallyExit)\(\s*0?\s*\)|\bprocess\.exitCode\s*=\s*0\b"
    r"|\bSystem\.exit\(\s*0\s*\)|\bhalt\(\s*0\s*\)|\bSystem\.(?:halt|stop)\(\s*0?\s*\)|\bEnvironment\.Exit\(\s*0\s*\)|\bexitProcess\(\s*0\s*\)"
    r"|(?<![\w.])(?:_exit|_Exit|exit|quick_exit|std::exit|std::_Exit|std::quick_exit)\s*\(\s*(?:0|EXIT_SUCCESS)\s*\)"
    r"|\bexit!?\s*\(?\s*(?:0|true)\b|\bos\._exit\(\s*0\s*\)|\bsys\.exit\(\s*(?:0|None)?\s*\)|\bSystemExit\(\s*0?\s*\)|\bos\.exit\(\s*(?:0|true)"
    r"|\bexitSuccess\b|\bexitWith\s+ExitSuccess\b|\bDeno\.exit\(\s*0?\s*\)|\bquit\([^)\n]*status\s*=\s*0|\bstd\.process\.exit\(\s*0\s*\)"
)
_ORDINARY = re.compile(
    r"(?i)KeyboardInterrupt|ctrlc|Graceful|Shutdown|BrokenPipe|EPIPE|SIGINT|SIGTERM|SIGPIPE|EOFError|\bEOF\b|Interrupt|Cancel|Abort(?!ed?Exception)|Quit|Prompt|SystemExit\b(?=[^\n]*:)"
    r"|StopIteration|GeneratorExit|Help|Version"
)
_ENDS = re.compile(r"\n\s*\n|\b(?:fn|func|def|function|class|impl|test|describe|it)\s+\w+\s*[({]|\breturn\b[^\n;]*[;\n][ \t]*\}")


def acts_of_surrender(code: str) -> Iterator[Act]:
    """Yield the ends with success that follow a failure.

    Args:
        code: code of any language without its comments.

    Example:
        >>> [(a.target, a.traits["after"]) for a in acts_of_surrender("panic::set_hook(Box::new(|_| std::process::exit(0)));")]
        [('0', 'set_hook')]
        >>> list(acts_of_surrender("try { run() } catch (e) { console.error(e); process.exit(1) }"))
        []
        >>> list(acts_of_surrender("except KeyboardInterrupt:\\n    sys.exit(0)"))
        []
    """
    code = code[:LONGEST]
    if not any(word in code for word in _WORDS) or not (_HINTS.may_hold(code, _HANDLED) and _HINTS.may_hold(code, _ENDED)):
        return
    if not code.isascii() and not first(_HINT, code):
        return
    for count, found in enumerate(_handlers(code)):
        if count >= MOST:
            return
        if found[3]:
            yield Act("exit", "0", f"after a failure: {found.group(0)}"[:160], span=found.span(), traits={"after": "trap"})
            continue
        window = code[found.end() : found.end() + NEAR]
        ended = _SUCCESS.search(window)
        if ended is None or _ORDINARY.search(found.group(0) + window[: ended.start()]):
            continue
        between = window[: ended.start()]
        if found[2] and (_ENDS.search(between) or between.count("}") > between.count("{")):
            continue
        if found[2] and found.group(0).startswith("except") and _is_left(code, found.start(), found.end() + ended.start()):
            continue
        what = (found[1] or found[2]).strip(" {:(\n")[:60]
        yield Act(
            "exit",
            "0",
            f"after a failure: {ended.group(0)}",
            span=(found.start(), found.end() + ended.end()),
            traits={"after": what},
        )


def _handlers(code: str) -> list[Any]:
    """Return where handlers begin."""
    same = in_ascii(code)
    found = list(islice(pattern(_HANDLER_ASCII).finditer(same), MOST + 1)) if same is not None else []
    if same is None or not all(code[one.start() : one.end()].isascii() for one in found):
        return list(islice(_HANDLER.finditer(code), MOST + 1))
    return found


def _is_left(code: str, start: int, end: int) -> bool:
    """Tell whether a line between the start of a block and a place stands no deeper than the block begins."""
    begin = code.rfind("\n", 0, start) + 1
    depth = len(code[begin:start]) - len(code[begin:start].lstrip())
    lines = code[start:end].split("\n")[1:]
    return any(line.strip() and len(line) - len(line.lstrip()) <= depth for line in lines)
