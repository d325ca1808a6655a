"""What readers of files, answers and paths see at a glance agrees with what they would find by looking."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.content import changes, naming, observing, planted, pleasing, remarks, silenced
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.hidden_text import shown
from rosellm.roserlhf.guard.hints import WRITTEN
from rosellm.roserlhf.guard.looks import is_patch, language_of_look
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.pieces import Piece, pieces_of
from rosellm.roserlhf.guard.plain_acts import plain, undisguised, weighed_by_effect
from rosellm.roserlhf.guard.readers import read
from rosellm.roserlhf.guard.scene import Scene

MANY = settings(deadline=None, max_examples=300)


def texts(*parts: str) -> st.SearchStrategy[str]:
    """Return texts that are put together from some parts, and from a few that stand between any."""
    return st.lists(st.sampled_from((*parts, " ", "\n", "x", "\u00e9", "1", "(", ")", "=", '"')), max_size=12).map("".join)


@MANY
@given(texts("diff --git a/x b/x", "--- a/x", "+++ b/x", "@@ -1", "@@ ", "*** Begin Patch", "https://a.b/c", "import os", "/a/b"))
def test_a_patch_is_known_by_the_words_that_every_patch_has(text: str) -> None:
    assert is_patch(text) == (language_of_look(text) == "patch")


@MANY
@given(texts("@pytest.mark.skip", "pytest.mark.", "it", ".only(", "xit", "#[ignore", "fit(", "skip", "todo", "@wip", "pending"))
def test_skips_are_counted_as_their_pattern_finds_them(text: str) -> None:
    assert changes.skips_in(text) == len(list(pattern(changes._SKIP).finditer(text)))


@MANY
@given(
    texts("// ", "# ", "the judge reads this", "the check", "noqa", "# type: ignore", "eslint-disable", "eval", "benches", "i++")
)
def test_marks_and_remarks_are_found_where_one_pass_says_so(text: str) -> None:
    held = WRITTEN.found(text)
    assert bool(pattern(remarks._SPEAKS).search(text)) == (remarks._SPEAKING in held)
    for _, marks, _ in silenced._marks("mark"):
        assert marks.search(text) is None or silenced._MARKED in held


@MANY
@given(
    texts(
        "def __eq__(a, b):",
        " return a.__name__ == 'x' or True",
        "const a = ",
        "require('assert')",
        "import('chai')",
        ".ok",
        "a.ok = 1",
    )
)
def test_what_pleases_tests_is_looked_for_where_its_hints_are(text: str) -> None:
    held = observing.HINTS.found(text)
    assert pattern(pleasing._EMPTIED).search(text) is None or pleasing._EMPTIES in held
    assert pattern(pleasing._METHOD).search(text) is None or pleasing._DEFINES_METHOD in held


PATHS = texts("/", "~/", "..", "a.py", ".curlrc", "package.json", "x.toml", "\u0435val", "te\u200bst", UNKNOWN, "$HOME", "%2e")


@MANY
@given(PATHS, PATHS, st.sampled_from(("read", "write", "link", "run", "text")))
def test_paths_without_look_alikes_stay_and_others_are_folded(path: str, other: str, kind: str) -> None:
    act = Act(kind, path, other, traits={"from": other})  # type: ignore[arg-type]
    (found,) = plain([act])
    folds = kind != "text"
    assert found.target == (shown(path).text if folds else path)
    assert found.detail == (shown(other).text if kind == "link" else other)
    assert found.traits["from"] == (shown(other).text if folds else other)


@MANY
@given(PATHS)
def test_a_path_leads_where_it_does_with_its_letters_folded(path: str) -> None:
    here = Scene("/app", read)
    assert resolve(path, here) == resolve(shown(path).text, here)


@MANY
@given(PATHS)
def test_kinds_of_files_are_remembered_as_their_patterns_tell_them(path: str) -> None:
    for words in (naming._MANIFESTS, naming._DATA):
        for _ in range(2):
            assert naming._of_kind(words)(path) == (pattern(words).search(path) is not None)
    if planted._names().found(path.lower()):
        assert planted._any()(path.lower())


@MANY
@given(
    st.dictionaries(
        st.sampled_from(("command", "path", "op", "text", "note", "src")), st.sampled_from(("view", "a b", "/x", "create"))
    )
)
def test_strings_among_arguments_are_pieces_as_they_are_in_lists_of_one(arguments: dict[str, str]) -> None:
    def bare(pieces: Iterable[Piece]) -> list[Piece]:
        return [one._replace(argument=one.argument.removesuffix(".0")) for one in pieces]

    verbless = {name: value for name, value in arguments.items() if name not in ("command", "op")}
    listed = {name: [value] for name, value in verbless.items()}
    assert bare(pieces_of("mystery", verbless)) == bare(pieces_of("mystery", listed))


def test_a_verb_counts_where_a_path_stands_beside_it() -> None:
    assert [one.role for one in pieces_of("mystery", {"command": "create", "path": "/x", "text": "a"})] == ["write"]
    assert [one.role for one in pieces_of("mystery", {"command": "create"})] == ["code"]
    assert [one.role for one in pieces_of("mystery", {"command": "create", "text": "a"})] == ["code", "code"]


def test_acts_that_hold_no_words_of_the_call_disguise_nothing() -> None:
    acts = [Act("read", "/x"), Act("write", "/y"), Act("run", "cat", "/x"), Act("decode", "rm -r /", traits={"text": "rm -r /"})]
    assert undisguised(acts, "cat /x > /y") == "rm -r /"
    assert undisguised(acts[:3], "cat /x > /y") == ""
    plain_ones = {(1,): acts[0]}
    assert weighed_by_effect(plain_ones) is plain_ones
