"""A strict reader of report pages: balanced tags, what is linked, what is scripted, what can be read as text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "br", "hr"}
LINKS = {"src", "href", "action", "data", "poster", "srcset", "formaction", "xlink:href"}


class Page(HTMLParser):
    """Parsed page; an unbalanced tag fails while reading."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.titled: list[tuple[str, str | None]] = []
        self.feed(source)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"{tag} repeats an attribute"
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        """Everything a reader without pictures gets, tooltips included."""
        tips = [value for _, name, value in self.attributes if name in ("title", "aria-label")]
        return "\n".join([*self.words, *tips])

    def links(self) -> list[str]:
        """Every address the page names."""
        return [value for _, name, value in self.attributes if name in LINKS]

    def values(self, name: str) -> list[str]:
        """Values of one attribute over all elements."""
        return [value for _, found, value in self.attributes if found == name]


def read_page(path: Path) -> Page:
    """Parse a written report."""
    return Page(path.read_text(encoding="utf-8"))
