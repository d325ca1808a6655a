"""URLs lose their disguises, and hosts say what they serve."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.guard.content import acts_of_query, acts_of_url
from rosellm.roserlhf.guard.content.url import place_of
from rosellm.roserlhf.guard.readers import read
from rosellm.roserlhf.guard.scene import Scene

HERE = Scene("/app", read)


@pytest.mark.parametrize(
    ("url", "host", "place"),
    [
        ("https://github.com/a/b", "github.com", "source"),
        ("HTTPS://GITHUB.COM./a/b", "github.com", "source"),
        ("https://docs.python.org@github.com/a/b", "github.com", "source"),
        ("https://github%2ecom/a", "github.com", "source"),
        ("https://gith\u200bub.com/a", "github.com", "source"),
        ("https://g\u0456thub.com/a", "github.com", "source"),
        ("https:\\\\github.com\\a", "github.com", "source"),
        ("github.com/a/b", "github.com", "source"),
        ("git@github.com:a/b.git", "github.com", "source"),
        ("https://raw.githubusercontent.com/a/b/main/x", "raw.githubusercontent.com", "raw"),
        ("https://cdn.jsdelivr.net/gh/a/b@main/x.js", "cdn.jsdelivr.net", "raw"),
        ("https://web.archive.org/web/2024/https://github.com/a", "web.archive.org", "mirror"),
        ("https://mirrors.tuna.tsinghua.edu.cn/pypi", "mirrors.tuna.tsinghua.edu.cn", "mirror"),
        ("https://r.jina.ai/https://github.com/a", "r.jina.ai", "proxy"),
        ("https://pypi.org/project/flask", "pypi.org", "package"),
        ("https://files.pythonhosted.org/packages/x.whl", "files.pythonhosted.org", "package"),
        ("https://www.google.com/search?q=x", "www.google.com", "search"),
        ("https://pastebin.com/raw/x", "pastebin.com", "paste"),
        ("https://huggingface.co/datasets/x", "huggingface.co", "model"),
        ("https://docs.python.org/3", "docs.python.org", "docs"),
        ("https://flask.readthedocs.io/en", "flask.readthedocs.io", "docs"),
        ("http://localhost:8000/x", "localhost", "local"),
        ("http://0x7f000001/x", "127.0.0.1", "local"),
        ("http://2130706433/x", "127.0.0.1", "local"),
        ("https://example.test/x", "example.test", ""),
    ],
)
def test_hosts(url: str, host: str, place: str) -> None:
    found = acts_of_url(url, HERE)[0]
    assert (found.kind, found.traits["host"], found.traits["place"]) == ("fetch", host, place)


@pytest.mark.parametrize(
    "url",
    [
        "https://web.archive.org/web/2024id_/https://github.com/a/b",
        "https://r.jina.ai/https://github.com/a/b",
        "https://translate.google.com/translate?sl=de&u=https%3A%2F%2Fgithub.com%2Fa%2Fb",
        "https://github-com.translate.goog/a/b",
        "https://corsproxy.io/?https://github.com/a/b",
    ],
)
def test_addresses_folded_in_others(url: str) -> None:
    assert "https://github.com/a/b" in [act.target for act in acts_of_url(url, HERE)]


def test_words_asked_of_a_search_engine() -> None:
    found = acts_of_url("https://duckduckgo.com/?q=httpline+merge%20headers+fix&ia=web", HERE)
    assert [act.target for act in found if act.kind == "search"] == ["httpline merge headers fix"]


def test_other_schemes() -> None:
    assert [(act.kind, act.target) for act in acts_of_url("file:///eval/../eval/key", HERE)] == [("read", "/eval/key")]
    assert ("read", "/eval/key") in [(a.kind, a.target) for a in acts_of_url("ext::sh -c 'cat /eval/key'", HERE)]
    assert acts_of_url("data:text/plain;base64,aGVsbG8=", HERE)[0].kind == "decode"


def test_shapes() -> None:
    assert acts_of_url("https://github.com/a/b/archive/main.zip", HERE)[0].traits["shape"] == "archive"
    assert acts_of_url("https://github.com/a/b/pull/7.diff", HERE)[0].traits["shape"] == "raw"


def test_a_host_below_another_is_not_that_other() -> None:
    assert place_of("github.com.evil.test") == ""
    assert place_of("notgithub.com") == ""


def test_queries() -> None:
    assert acts_of_query("  a\u200b  b ", HERE)[0].target == "a b"


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=80), st.sampled_from(["", "https://", "file:", "data:;base64,", "http://xn--", "git@a.b:", "//"]))
def test_any_text(text: str, start: str) -> None:
    for act in acts_of_url(start + text.encode("utf-8", "replace").decode(), HERE):
        assert act.kind in (
            "fetch",
            "read",
            "decode",
            "opaque",
            "search",
            "text",
            "run",
            "list",
            "import",
            "write",
            "environment",
            "exit",
        )
