"""Nothing from data becomes markup, and nothing unseen stays unseen."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from report_html import Page

from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.markup import Html, lines, tag, text, visible


def test_controls_and_direction_overrides_are_written_out() -> None:
    assert visible("a\tb\nc\x00\x7f") == "a⇥b↵c⟨U+0000⟩⟨U+007F⟩"
    assert visible("\u202eabc\u2066\u200b\ufeff\ud800") == "⟨U+202E⟩abc⟨U+2066⟩⟨U+200B⟩⟨U+FEFF⟩⟨U+D800⟩"
    assert visible("plain, ünïcode, 漢字, עברית") == "plain, ünïcode, 漢字, עברית"


def test_text_is_escaped_and_markup_is_not() -> None:
    assert text("<b> & \"'") == "&lt;b&gt; &amp; &quot;&#x27;"
    assert text(Html("<b>")) == "<b>"
    assert (
        tag("p", "<i>", tag("b", "x"), None, class_="a", hidden=True, open=False, id=None)
        == '<p class="a" hidden>&lt;i&gt;<b>x</b></p>'
    )


def test_line_breaks_survive_only_where_they_are_asked_for() -> None:
    assert lines("a\n<b>") == "a\n&lt;b&gt;"
    assert tag("span", "a\nb", title="a\nb\x00") == '<span title="a\nb⟨U+0000⟩">a↵b</span>'


@settings(derandomize=True, max_examples=60, deadline=None)
@given(content=st.text(), value=st.text())
def test_any_text_comes_back_as_text(content: str, value: str) -> None:
    page = Page(tag("span", content, title=value))
    assert page.tags == ["span"]
    assert "".join(page.words) == visible(content)
    assert page.values("title") == ["\n".join(visible(line) for line in value.split("\n"))]


def test_numbers_and_what_is_missing() -> None:
    assert [units.number(value) for value in (0, 3.0, 12345, 0.5, -0.00012346, 1e-9, 1234567.5, 12340.2, 999.99996)] == [
        "0",
        "3",
        "12,345",
        "0.5",
        "-0.0001235",
        "1e-09",
        "1.23e+06",
        "12,340",
        "1,000",
    ]
    assert [units.number(value) for value in (None, float("nan"), float("-inf"))] == ["not recorded", "NaN", "-inf"]
    assert [units.percent(value) for value in (None, 0.974, 1)] == ["not recorded", "97.4 %", "100.0 %"]
    assert [units.seconds(value) for value in (None, 0.25, 12.34, 61, 3723)] == [
        "not recorded",
        "0.25 s",
        "12.3 s",
        "1 min 1 s",
        "1 h 2 min",
    ]
    assert [units.memory(value) for value in (None, 2**20 * 3, 2**31)] == ["not recorded", "3 MiB", "2.00 GiB"]
