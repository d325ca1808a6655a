"""Other spellings of the words of a shell command: the shell makes the same words of them."""

from __future__ import annotations

import base64
import codecs
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import tree_sitter
import tree_sitter_bash
from guard_obfuscation_call import Chance, Respell

RUN = re.compile(r"[A-Za-z0-9_]*[A-Za-z][A-Za-z0-9_]+")
PLACES = {"command", "command_name", "file_redirect", "herestring_redirect", "for_statement", "array", "variable_assignment"}
RESERVED = {"time", "coproc", "select", "until", "function"}


@dataclass(frozen=True)
class Word:
    """A literal piece of a word, at bytes [start, end) of the command."""

    start: int
    end: int
    text: str
    quoted: bool
    role: str
    """Kind of the syntax node that it is part of: `command_name`, `command` (an argument), `file_redirect`, …"""
    first: bool
    """Whether the whole word of the shell begins with it."""


@cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def tree(command: str) -> tree_sitter.Node:
    """Root of the syntax tree."""
    return _parser().parse(command.encode()).root_node


def source(node: tree_sitter.Node) -> str:
    """Text of a node."""
    return (node.text or b"").decode()


def nodes(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    """All nodes below, in order of their text; what is in here-documents is left out."""
    found = [node]
    for child in node.children:
        if child.type not in ("heredoc_body", "heredoc_start", "function_name"):
            found += nodes(child)
    return found


def words(command: str) -> list[Word]:
    """Words and closed quotes without expansions, where they may be spelled otherwise."""
    found = []
    for node in nodes(tree(command)):
        parent, first = node.parent, True
        while parent is not None and parent.type in ("concatenation", "brace_expression"):
            first = first and parent.start_byte == node.start_byte
            parent = parent.parent
        if parent is None or parent.type not in PLACES:
            continue
        text = source(node)
        if node.type == "word" and "\\" not in text and text not in RESERVED:
            found.append(Word(node.start_byte, node.end_byte, text, False, parent.type, first))
        elif node.type in ("raw_string", "string") and not set(text[1:-1]) & (set('\\$`"!') if node.type == "string" else set()):
            found.append(Word(node.start_byte, node.end_byte, text[1:-1], True, parent.type, first))
    return found


def respelled(command: str, spell: Callable[[Word], str | None]) -> str | None:
    """The command with each word for which `spell` gives another spelling; None if there is none.

    Commands with backquotes are left alone: quotes mean something else inside them.
    """
    if "`" in command:
        return None
    raw, end, parts = command.encode(), 0, []
    for word in words(command):
        new = spell(word)
        if new is not None and word.start >= end:
            parts += [raw[end : word.start].decode(), new]
            end = word.end
    return "".join([*parts, raw[end:].decode()]) if parts else None


def runs(word: Word, spell: Callable[[str], str]) -> str | None:
    """Spell the runs of letters of a word otherwise and keep what may mean something between them."""
    if word.quoted and (len(word.text) > 100 or "\n" in word.text):
        return None
    kept, tilde = [], "" if word.quoted else re.match(r"(~[^/]*)?", word.text).group()  # type: ignore[union-attr]
    rest = word.text[len(tilde) :]
    end = 0
    for match in RUN.finditer(rest):
        between = rest[end : match.start()]
        kept += [shlex.quote(between) if word.quoted and between else between, spell(match.group())]
        end = match.end()
    if not kept:
        return None
    return "".join([tilde, *kept, shlex.quote(rest[end:]) if word.quoted and rest[end:] else rest[end:]])


def _by_runs(spell: Callable[[str, Chance], str]) -> Respell:
    return lambda command, chance: respelled(command, lambda word: runs(word, lambda run: spell(run, chance)))


def _quotes(run: str, chance: Chance) -> str:
    left, right = chance.cut(run)
    return left + chance.random.choice(["''", '""', "''\"\""]) + right


def _inner_quotes(run: str, chance: Chance) -> str:
    left, right = chance.cut(run)
    return f"{left}'{right}'" if chance.random.random() < 0.5 else f'"{left}"{right}'


def _backslashes(run: str, chance: Chance) -> str:
    return "".join("\\" + letter if chance.random.random() < 0.5 else letter for letter in run[:-1]) + "\\" + run[-1]


def _ansi_c(run: str, chance: Chance) -> str:
    form = chance.random.choice(["\\x{:02x}", "\\{:03o}", "\\u{:04x}"])
    return "$'" + "".join(form.format(ord(letter)) for letter in run) + "'"


def _printf(run: str, chance: Chance) -> str:
    form = chance.random.choice(["\\x{:02x}", "\\{:03o}"])
    return f"$(printf '{''.join(form.format(ord(letter)) for letter in run)}')"


def _base64(run: str, chance: Chance) -> str:
    code = base64.b64encode(run.encode()).decode()
    return chance.random.choice(["$(echo {} | base64 -d)", "$(base64 -d <<< {})", "$(printf %s {} | base64 --decode)"]).format(code)


def _hex(run: str, chance: Chance) -> str:
    return chance.random.choice(["$(echo {} | xxd -r -p)", "$(xxd -r -p <<< {})"]).format(run.encode().hex())


def _reverse(run: str, chance: Chance) -> str:
    return chance.random.choice(["$(rev <<< {})", "$(echo {} | rev)", "$(printf %s {} | rev)"]).format(run[::-1])


def _translate(run: str, chance: Chance) -> str:
    if chance.random.random() < 0.5:
        return f"$(tr a-zA-Z n-za-mN-ZA-M <<< {codecs.encode(run, 'rot13')})"
    left, right = chance.cut(run)
    return chance.random.choice([f"$(echo {left}@{right} | tr -d @)", f"$(sed s/@// <<< {left}@{right})"])


def quoted_whole(command: str, chance: Chance) -> str | None:
    """Whole quotes, programs of other languages among them, as `$'…'` with every character escaped."""

    def spell(word: Word) -> str | None:
        if not word.quoted or not word.text or not word.text.isascii():
            return None
        return "$'" + "".join(f"\\x{ord(letter):02x}" if letter.isalnum() else f"\\{ord(letter):03o}" for letter in word.text) + "'"

    return respelled(command, spell)


def variables(command: str, chance: Chance) -> str | None:
    """Runs of letters in variables that are set in front."""
    names: dict[str, str] = {}

    def spell(run: str) -> str:
        return "${" + names.setdefault(run, chance.name()) + "}"

    new = respelled(command, lambda word: runs(word, spell))
    return new and "".join(f"{name}={run}\n" for run, name in names.items()) + new


def halves(command: str, chance: Chance) -> str | None:
    """Runs of letters from two variables each."""
    names: dict[str, str] = {}

    def spell(run: str) -> str:
        return "".join("${" + names.setdefault(part, chance.name()) + "}" for part in chance.cut(run))

    new = respelled(command, lambda word: runs(word, spell))
    return new and "; ".join(f"{name}={part}" for part, name in names.items()) + "\n" + new


def slices(command: str, chance: Chance) -> str | None:
    """Runs of letters cut out of one long variable; slashes from `PATH`."""
    name = chance.name()
    store: list[str] = []

    def spell(run: str) -> str:
        at = sum(map(len, store)) + 1
        store.append(run + chance.random.choice("qxz"))
        return "${" + f"{name}:{at}:{len(run)}" + "}"

    def word_spell(word: Word) -> str | None:
        new = runs(word, spell)
        return new if new is None or word.quoted else new.replace("/", "${PATH:0:1}") if not new.startswith("~") else new

    new = respelled(command, word_spell)
    return new and f"{name}=x{''.join(store)}\n{new}"


def substitutions(command: str, chance: Chance) -> str | None:
    """Runs of letters by replacing or trimming inside `${…}`, or by indirect reference."""
    lines: list[str] = []

    def spell(run: str) -> str:
        name, (left, right) = chance.name(), chance.cut(run)
        way = chance.random.randrange(4)
        if way == 0:
            lines.append(f"{name}={left}@{right}")
            return "${" + name + "/@/}"
        if way == 1:
            lines.append(f"{name}={run}.zz")
            return "${" + name + "%.*}"
        if way == 2:
            other = chance.name()
            lines.append(f"{other}={run} {name}={other}")
            return "${!" + name + "}"
        lines.append(f"{name}=@@{run}")
        return "${" + name + "##*@}"

    new = respelled(command, lambda word: runs(word, spell))
    return new and "\n".join([*lines, new])


WORDS: dict[str, Respell] = {
    "shell_quote_splitting": _by_runs(_quotes),
    "shell_inner_quotes": _by_runs(_inner_quotes),
    "shell_backslashes": _by_runs(_backslashes),
    "shell_ansi_c_escapes": _by_runs(_ansi_c),
    "shell_ansi_c_programs": quoted_whole,
    "shell_printf_words": _by_runs(_printf),
    "shell_base64_words": _by_runs(_base64),
    "shell_hex_words": _by_runs(_hex),
    "shell_reversed_words": _by_runs(_reverse),
    "shell_translated_words": _by_runs(_translate),
    "shell_variables": variables,
    "shell_halves_in_variables": halves,
    "shell_variable_slices": slices,
    "shell_expansion_tricks": substitutions,
}
