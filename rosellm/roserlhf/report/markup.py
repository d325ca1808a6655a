"""Markup that cannot be injected into: `any value -> Html`, and plain text is escaped wherever it enters a tag.

`Html` is the only type that passes through unchanged, and only `text` and `tag` make one. Characters that a reader could not see or
that would reorder the line (controls, zero-width characters, right-to-left overrides, lone surrogates) are written out visibly.
"""

from __future__ import annotations

import html
from typing import TypeAlias

VOID_ELEMENTS = frozenset({"br", "hr", "meta", "rect", "line", "circle", "path", "polygon"})


class Html(str):
    """A string that is already markup; made by `text` and `tag` only."""

    __slots__ = ()


Child: TypeAlias = "str | Html | None"
Attribute: TypeAlias = "str | int | float | bool | None"


def visible(value: str) -> str:
    """Write characters that print nothing, or that reorder what follows, as an arrow or their code point.

    Example:
        >>> from rosellm.roserlhf.report.markup import visible
        >>> visible("a\\x00b\\u202ec")
        'a⟨U+0000⟩b⟨U+202E⟩c'
    """
    if value.isprintable():
        return value
    return "".join(character if character.isprintable() else _picture(character) for character in value)


def _picture(character: str) -> str:
    return {"\n": "↵", "\t": "⇥"}.get(character, f"⟨U+{ord(character):04X}⟩")


def text(value: object) -> Html:
    """Escape any value as text; `Html` passes unchanged."""
    return value if isinstance(value, Html) else Html(html.escape(visible(str(value))))


def lines(value: str) -> Html:
    """Escape text whose line breaks are to stay (tooltips)."""
    return Html("\n".join(text(line) for line in value.split("\n")))


def join(children: list[Html] | tuple[Html, ...]) -> Html:
    """Concatenate markup."""
    return Html("".join(children))


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Build one element; what is not `Html` is escaped, None is left out.

    A trailing underscore of an attribute name is dropped (`class_`), inner ones become hyphens (`aria_label`), True writes the bare
    name.

    Example:
        >>> from rosellm.roserlhf.report.markup import tag
        >>> tag("b", "<script>", class_='x" onload="y')
        '<b class="x&quot; onload=&quot;y">&lt;script&gt;</b>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID_ELEMENTS and not children:
        return Html(f"<{name}{written}>" if name in {"br", "hr", "meta"} else f"<{name}{written}/>")
    body = "".join(text(child) for child in children if child is not None)
    return Html(f"<{name}{written}>{body}</{name}>")


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    shown = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(_lines_kept(shown))}"'


def _lines_kept(value: str) -> str:
    """Attribute values may hold line breaks (tooltips use them); every other control is written out."""
    return "\n".join(visible(line) for line in value.split("\n"))
