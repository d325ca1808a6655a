"""Acts in whose paths nothing is folded are handed on as they are; the collector is left as a reading found it."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.plain_acts import plain
from rosellm.roserlhf.guard.python import acts_of_python
from rosellm.roserlhf.guard.scene import Scene

_PATHS = st.text("a/\u0435\u200b\ufffc", max_size=4)
_ACTS = st.builds(
    Act,
    st.sampled_from(["read", "link", "write", "text"]),
    _PATHS,
    _PATHS,
    traits=st.dictionaries(st.sampled_from(["from", "mode"]), _PATHS, max_size=2),
)


@given(st.lists(_ACTS, max_size=5))
def test_acts_are_made_plain_together_as_each_by_itself(acts: list[Act]) -> None:
    odd = Act("link", "/b", "/c")  # beside it each is looked at
    assert list(plain(acts)) == [*plain([*acts, odd])][:-1]


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("code", ["print(open('a').read())", "def f(:"])
def test_reading_python_leaves_the_collector_as_it_was(code: str, collects: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        acts_of_python(code, Scene("/app", lambda *_: []))
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
