"""Shows docstrings and pages as written: equations become MathML, which browsers draw without script or font from elsewhere.

Docstrings write `.. math::` and :math:`x`, as Python's tools read them; pages write `$$` blocks and $`x`$, as GitHub reads them.
"""

from __future__ import annotations

import re
from html import escape
from textwrap import dedent
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

# a size in front of a delimiter that is itself a command is not understood; brackets may have one
_SIZE = re.compile(r"\\[bB]igg?[lrm]?(?=\\)")
# browsers ignore the attribute and want the letter itself
_LETTER = re.compile(r'<(mi|mn) mathvariant="double-struck">(\w)</\1>')
_DOUBLE_STRUCK = {"E": "&#x1D53C;", "1": "&#x1D7D9;"}


class DocstringMarkup(Preprocessor):
    """`.. math::` and `$$` blocks, $`x`$ and roles such as :math:`x` -> MathML and code spans; interpreter sessions -> code."""

    def run(self, lines: list[str]) -> list[str]:
        """Translate the lines of one text."""
        out: list[str] = []
        rest = list(lines)
        while rest:
            line = rest.pop(0)
            margin = len(line) - len(line.lstrip())
            if line.strip() == "$$":
                out += ["", " " * margin + self._stash(" ".join(self._until_closed(rest)), "block"), ""]
                continue
            if line.lstrip().startswith(">>> "):
                while rest and rest[0].strip():
                    line += "\n" + rest.pop(0)
                out += ["", " " * margin + self._code(dedent(line)), ""]
                continue
            if not line.lstrip().startswith(".. math::"):
                line = re.sub(r"\$`([^`]+)`\$", lambda found: self._stash(found[1], "inline"), line)
                out.append(re.sub(r":(\w+):`~?([^`]+)`", self._role, line))
                continue
            formula = [line.partition("::")[2]]
            while rest and (not rest[0].strip() or len(rest[0]) - len(rest[0].lstrip()) > margin):
                formula.append(rest.pop(0).strip())
            out += ["", " " * margin + self._stash(" ".join(formula).strip(), "block"), ""]
        return out

    def _until_closed(self, rest: list[str]) -> list[str]:
        formula: list[str] = []
        while rest and rest[0].strip() != "$$":
            formula.append(rest.pop(0).strip())
        if not rest:
            raise ValueError(f"$$ is never closed, after {' '.join(formula):.80}")
        rest.pop(0)
        return formula

    def _code(self, session: str) -> str:
        return str(self.md.htmlStash.store(f"<pre><code>{escape(session)}</code></pre>"))

    def _role(self, found: re.Match[str]) -> str:
        return self._stash(found[2], "inline") if found[1] == "math" else f"`{found[2].rpartition('.')[2]}`"

    def _stash(self, formula: str, display: str) -> str:
        drawn = convert(_SIZE.sub("", formula), display=display).replace("\\_", "_")
        drawn = _LETTER.sub(lambda found: f"<{found[1]}>{_DOUBLE_STRUCK[found[2]]}</{found[1]}>", drawn)
        if "\\" in drawn:
            raise ValueError(f"{formula} holds a command that cannot be drawn")
        if display == "block":
            drawn = f'<div class="equation">{drawn}</div>'  # scrolls where it is wider than the page
        return str(self.md.htmlStash.store(drawn))


class DocstringMarkupExtension(Extension):
    """Registers the translation before Markdown looks at the text."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name is Markdown's
        """Install the preprocessor behind fenced code, which must stay as it is."""
        md.preprocessors.register(DocstringMarkup(md), "docstring_markup", 24)


def on_config(config: Any) -> Any:
    """Give every page, and every docstring on it, the translation above."""
    config["markdown_extensions"].append(DocstringMarkupExtension())
    return config
