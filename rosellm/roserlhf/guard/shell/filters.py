"""Programs that turn text into text: folded where their input is known, so that what they spell is read."""

from __future__ import annotations

import base64
import binascii
import codecs
import posixpath
import re
import zlib
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell import command as commands
from rosellm.roserlhf.guard.shell.escapes import ansi
from rosellm.roserlhf.guard.shell.file import act_on
from rosellm.roserlhf.guard.shell.program import interpret
from rosellm.roserlhf.guard.shell.shell import Shell
from rosellm.roserlhf.guard.shell.table import programs
from rosellm.roserlhf.guard.shell.value import ANYTHING, NOTHING, Value, mapped, one_of

_CLASSES: Final = {
    "alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "upper": "A-Z", "lower": "a-z", "space": " \t\n\r\f\v", "blank": " \t",
    "punct": "!-/:-@[-`{-~", "xdigit": "0-9A-Fa-f", "print": " -~", "graph": "!-~", "cntrl": "\x00-\x1f",
}  # fmt: skip
_LARGEST: Final = 200_000
Change = Callable[[str], str]


def _filter(make: Callable[[Shell, list[str]], Change | None]) -> Callable[[Shell, list[str]], Value]:
    """Make the reader of a program that the table knows and whose output `make(shell, argv)` computes from its input."""

    def read(shell: Shell, argv: list[str]) -> Value:
        spec = programs()[commands.known_as(argv[0])]
        value = interpret(shell, spec, argv, commands.dispatch)
        change = make(shell, argv)
        if change is None:
            return value
        return mapped(lambda text: text if text == UNKNOWN else change(text), value)

    return read


def _hidden(shell: Shell, how: str, decode: Callable[[str], bytes]) -> Change:
    def change(text: str) -> str:
        try:
            found = _text(decode(text))
        except (ValueError, binascii.Error, zlib.error):
            return UNKNOWN
        shell.note_decoded(how, found)
        return found

    return change


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8").replace("\0", "\n")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _has(argv: list[str], *letters: str) -> bool:
    """Tell whether a flag is given, alone or among others."""
    return any(
        word in letters
        or (word.startswith("-") and not word.startswith("--") and any(len(one) == 2 and one[1] in word for one in letters))
        for word in argv[1:]
    )


def _padded(text: str, block: int) -> bytes:
    plain = re.sub(r"[^A-Za-z0-9+/_-]", "", text).encode("ascii", "ignore")
    return plain + b"=" * (-len(plain) % block)


def _base64(shell: Shell, argv: list[str]) -> Change | None:
    if not _has(argv, "-d", "-D", "--decode") and not any(word.startswith("--d") for word in argv):
        return lambda text: base64.b64encode(text.encode("utf-8", "replace")).decode()
    return _hidden(
        shell, "base64", lambda text: base64.b64decode(_padded(text, 4), altchars=b"-_" if re.search(r"[-_]", text) else None)
    )


def _base32(shell: Shell, argv: list[str]) -> Change | None:
    if not _has(argv, "-d", "--decode"):
        return lambda text: base64.b32encode(text.encode("utf-8", "replace")).decode()
    return _hidden(shell, "base32", lambda text: base64.b32decode(_padded(text, 8)))


def _xxd(shell: Shell, argv: list[str]) -> Change | None:
    if not _has(argv, "-r", "--reverse"):
        return lambda text: text.encode("utf-8", "replace").hex() if _has(argv, "-p", "-ps") else UNKNOWN

    def decode(text: str) -> bytes:
        if not _has(argv, "-p", "-ps", "-plain"):
            text = "".join(line.partition(":")[2].split("  ")[0] for line in text.splitlines())
        return bytes.fromhex(re.sub(r"[^0-9a-fA-F]", "", text.replace("\\x", "").replace("0x", "")))

    return _hidden(shell, "hex", decode)


def _openssl(shell: Shell, argv: list[str]) -> Value:
    value = interpret(shell, programs()["openssl"], argv, commands.dispatch)
    if "-base64" in argv or "base64" in argv or "-a" in argv:
        source: Value = shell.stdin if "-in" not in argv and shell.stdin is not None else value
        if "-d" in argv:
            return mapped(lambda text: text if text == UNKNOWN else _base64(shell, ["base64", "-d"])(text), source)  # type: ignore[misc]
    return ANYTHING


def _gunzip(shell: Shell, argv: list[str]) -> Change | None:
    if commands.known_as(argv[0]) in ("gzip", "pigz", "zstd", "xz", "bzip2") and not _has(
        argv, "-d", "--decompress", "--uncompress"
    ):
        return lambda text: UNKNOWN
    return _hidden(shell, "gzip", lambda text: zlib.decompressobj(47).decompress(text.encode("latin-1"), _LARGEST))


def _tr(shell: Shell, argv: list[str]) -> Change | None:
    flags = "".join(word[1:] for word in argv[1:] if re.fullmatch(r"-[cCdst]+", word))
    sets = [_characters(word) for word in argv[1:] if not re.fullmatch(r"-[cCdst]+|--\w+", word)]
    if not sets:
        return None
    complement, delete = "c" in flags.lower(), "d" in flags or "--delete" in argv

    def change(text: str) -> str:
        if delete:
            taken = set(sets[0])
            found = "".join(one for one in text if one == UNKNOWN or (one in taken) == complement)
        elif len(sets) > 1 and sets[1]:
            last = sets[1][-1]
            if complement:
                kept = set(sets[0])
                found = "".join(one if one in kept else last for one in text)
            else:
                found = text.translate(
                    {ord(a): (sets[1] + last * len(sets[0]))[at] for at, a in reversed(list(enumerate(sets[0])))}
                )
        else:
            found = text
        if found.strip() != text.strip() and not ({sets[0], *sets[1:]} & {"\n", " ", ",", "\0", ":"}):
            shell.note_decoded("tr", found)
        return found

    return change


def _characters(text: str) -> str:
    """Expand a set of `tr`."""
    text = re.sub(r"\[:(\w+):\]", lambda found: _CLASSES.get(found[1], ""), ansi(text)[:2000])
    return re.sub(
        r"([\s\S])-([\s\S])",
        lambda found: "".join(map(chr, range(ord(found[1]), min(ord(found[2]), ord(found[1]) + 256) + 1))),
        text,
    )


def _rev(shell: Shell, argv: list[str]) -> Change | None:
    def change(text: str) -> str:
        found = "\n".join(line[::-1] for line in text.split("\n"))
        shell.note_decoded("rev", found)
        return found

    return change


def _tac(shell: Shell, argv: list[str]) -> Change | None:
    return lambda text: "\n".join([*text.rstrip("\n").split("\n")[::-1], ""])


def _cut(shell: Shell, argv: list[str]) -> Change | None:
    joined_words = " ".join(argv[1:])
    spec = re.search(r"(?:^| )-(?:[a-z]*)([fcb]) ?(\d*)(-?)(\d*)((?:,[\d-]+)*)(?: |$)", joined_words)
    delimiter = re.search(r"(?:^| )-d ?(.)|--delimiter=(.)", joined_words)
    if not spec or spec[5]:
        return lambda text: text
    split = (delimiter[1] or delimiter[2]) if delimiter else "\t"
    first = int(spec[2][:6] or 1) - 1
    last = int(spec[4][:6] or 10**6) if spec[3] else first + 1

    def change(text: str) -> str:
        lines = text.split("\n")
        if spec[1] != "f":
            return "\n".join(line[first:last] for line in lines)
        return "\n".join(split.join(line.split(split)[first:last]) if split in line else line for line in lines)

    return change


def _one_line(shell: Shell, argv: list[str]) -> Value:
    """`head -1`: one of the lines; longer parts may be all of the text."""
    value = interpret(shell, programs()[commands.known_as(argv[0])], argv, commands.dispatch)
    if re.search(r"(?:^| )-(?:n ?)?1(?: |$)|--lines=1\b", " ".join(argv[1:])):
        return one_of(f"{line}\n" for text in value for line in text.split("\n")[:64] if line)
    return value


def _fold(shell: Shell, argv: list[str]) -> Change | None:
    return lambda text: text


def _paste(shell: Shell, argv: list[str]) -> Change | None:
    if not _has(argv, "-s"):
        return None
    found = re.search(r"-s?d ?(\S?)", " ".join(argv[1:]))
    between = ansi(found[1]) if found else "\t"
    return lambda text: between.replace("\\0", "").join(text.rstrip("\n").split("\n")) + "\n"


def _of_words(change: Callable[[str], str]) -> Callable[[Shell, list[str]], Value]:
    def read(shell: Shell, argv: list[str]) -> Value:
        words = [word for word in argv[1:] if word[:1] != "-" or not re.fullmatch(r"-[a-zA-Z]|--\w+", word)]
        return ("\n".join(map(change, words)) + "\n",) if words else NOTHING

    return read


def _basename(shell: Shell, argv: list[str]) -> Value:
    words = [word for word in argv[1:] if word not in ("-a", "-z", "--")]
    if not words:
        return NOTHING
    name = posixpath.basename(words[0].rstrip("/"))
    return ((name.removesuffix(words[1]) if len(words) > 1 else name) + "\n",)


def _realpath(shell: Shell, argv: list[str]) -> Value:
    words = [word for word in argv[1:] if not word.startswith("-")]
    for word in words:
        act_on(shell, "list", word, argv[0])
    return mapped(lambda cwd: "\n".join(shell.path(word) for word in words) + "\n", shell.cwd)


def _seq(shell: Shell, argv: list[str]) -> Value:
    numbers = [word for word in argv[1:] if re.fullmatch(r"-?\d{1,8}", word)]
    if not numbers or len(numbers) > 3 or len(numbers) != len(argv) - 1:
        return (UNKNOWN + "\n",)
    values = [int(one) for one in numbers]
    first, step, last = (1, 1, values[0]) if len(values) == 1 else (values[0], 1, values[1]) if len(values) == 2 else values
    if not step or not 0 <= (last - first) // step < 64:
        return (UNKNOWN + "\n",)
    return ("".join(f"{one}\n" for one in range(first, last + (1 if step > 0 else -1), step)),)


def _which(shell: Shell, argv: list[str]) -> Value:
    words = [word for word in argv[1:] if not word.startswith("-")]
    return ("".join(f"/usr/bin/{word}\n" for word in words if "/" not in word),) if words else ANYTHING


def _rot13(shell: Shell, argv: list[str]) -> Value:
    return mapped(_hidden(shell, "rot13", lambda text: codecs.encode(text, "rot13").encode()), shell.stdin or ANYTHING)


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    **dict.fromkeys(["base64", "gbase64"], _filter(_base64)),
    "base32": _filter(_base32),
    "xxd": _filter(_xxd),
    "openssl": _openssl,
    **dict.fromkeys(["gunzip", "gzip", "zcat", "pigz", "gzcat", "unpigz"], _filter(_gunzip)),
    "tr": _filter(_tr),
    "rev": _filter(_rev),
    "tac": _filter(_tac),
    "head": _one_line,
    "tail": _one_line,
    "cut": _filter(_cut),
    "fold": _filter(_fold),
    "paste": _filter(_paste),
    "basename": _basename,
    "dirname": _of_words(lambda word: posixpath.dirname(word.rstrip("/")) or "."),
    **dict.fromkeys(["realpath", "readlink", "grealpath", "greadlink"], _realpath),
    "seq": _seq,
    "which": _which,
    "rot13": _rot13,
}
