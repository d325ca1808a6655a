"""Lines that go and lines that come -> what the change does to tests: assertions out, tests out, skips in, bounds widened."""

from __future__ import annotations

from rosellm.roserlhf.guard.patterns import pattern

_ASSERTION = (
    r"(?m)^\s*(?:assert\b|self\.assert\w+\(|assert\w*!?\s*[(.]|expect\s*\(|EXPECT_\w+\(|ASSERT_\w+\(|REQUIRE\w*\(|"
    r"CHECK\w*\(|t\.(?:Error"
    r"|Fatal|Fail)\w*\(|require\.\w+\(|pytest\.raises|with (?:pytest|self)\.(?:raises|assertRaises)"
    r"|Assert\.\w+\(|should\b|\w+\.should\b|debug_assert"
    r"|npt\.assert\w+|np\.testing\.|torch\.testing\.|XCTAssert\w*\(|@test\b|check\s*\()"
)
_TEST = (
    r"(?m)^\s*(?:(?:async )?def test\w*\(|(?:it|test|describe|specify)\s*\(|func (?:Test|Benchmark|Example|Fuzz)\w+\(|#\[test\]"
    r"|@Test\b|TEST(?:_F|_P)?\s*\(|TEST_CASE\s*\(|void test\w+\(|@pytest\.mark\.parametrize|@testset|public function test)"
)
_SKIP = (
    r"(?m)(?:@?pytest\.(?:mark\.)?(?:skip|skipif|xfail|importorskip)|@?unittest\.(?:skip\w*|expectedFailure)|self\.skipTest\("
    r"|\b(?:it|test|describe|context|suite)\.(?:skip|only|todo)\b|\b(?:xit|xdescribe|xtest|fit|fdescribe)\s*\(|"
    r"this\.skip\(\)|\bt\.Skip\w*\(|#\[ignore|@Disabled\b"
    r"|@Ignore\b|GTEST_SKIP|DISABLED_|markTestSkipped|__test__\s*=\s*False|collect_ignore|SkipTest|raise\s+\w*Skip"
    r"|^//go:build |^// \+build |^#!?\[cfg\((?:any\(\)|not\(test\))"
    r")"
)
_TOLERANCE = (
    r"\b(?:rtol|atol|abs|rel|delta|places|decimal|tolerance|epsilon|eps|timeout|max_\w+|maxDiff)\s*[=:]\s*|assert\s+True\b|"
    r"or\s+True\b|"
    r"toBeTruthy\(\)|toBeDefined\(\)|expect\.anything\(|mock\.ANY|not\.toThrow\(\)|\|\|\s*true\b|#\[allow|"
    r"except\s*(?:\w+\s*)?:\s*pass"
)


def traits_of_change(removed: str, added: str) -> dict[str, str]:
    """Return how many assertions and tests a change takes away, and how many skips and loosened checks it adds.

    Example:
        >>> traits_of_change("assert f() == 1", "assert f() == 2"), traits_of_change("assert f(1)", "@pytest.mark.skip")
        ({'changes_assertion': '1'}, {'removes_assertion': '1', 'adds_skip': '1'})
    """
    counts = {
        "removes_assertion": _count(_ASSERTION, removed) - _count(_ASSERTION, added),
        "removes_test": _count(_TEST, removed) - _count(_TEST, added),
        "adds_skip": _count(_SKIP, added) - _count(_SKIP, removed),
        "weakens": _count(_TOLERANCE, added) - _count(_TOLERANCE, removed),
    }
    changes = _count(_ASSERTION, removed) and _count(_ASSERTION, added) and sorted(removed.split()) != sorted(added.split())
    found = {name: str(number) for name, number in counts.items() if number > 0}
    return found | ({"changes_assertion": str(_count(_ASSERTION, added))} if changes and "removes_assertion" not in found else {})


def _count(words: str, text: str) -> int:
    return sum(1 for _ in pattern(words).finditer(text)) if text else 0
