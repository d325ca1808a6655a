"""Lines that go and lines that come -> what the change does to tests: assertions out, tests out, skips in, bounds widened."""

from __future__ import annotations

from rosellm.roserlhf.guard.content.measured import CONSTANT, METRIC, OPERATION, changed_constants, skewed
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.hints import WRITTEN, Hints
from rosellm.roserlhf.guard.patterns import passing, pattern

_ASSERTION = (
    r"(?m)^\s*(?:assert\b|self\.assert\w+\(|assert\w*!?\s*[(.]|expect\s*\(|EXPECT_\w+\(|ASSERT_\w+\(|REQUIRE\w*\(|"
    r"CHECK\w*\(|t\.(?:Error"
    r"|Fatal|Fail)\w*\(|require\.\w+\(|pytest\.raises|with (?:pytest|self)\.(?:raises|assertRaises)"
    r"|Assert\.\w+\(|should\b|\w+\.should\b|debug_assert"
    r"|(?:assert|refute)_\w+|refute\b|\$this->assert\w+\(|(?:self|static)::assert\w+\(|\?assert\w+\(|#expect\(|expect_\w+\(|stopifnot\("
    r"|npt\.assert\w+|np\.testing\.|torch\.testing\.|XCTAssert\w*\(|@test\b|check\s*\()"
)
_TEST = (
    r"(?m)^\s*(?:(?:async )?def test\w*|(?:it|test|describe|specify)\s*\(|func (?:Test|Benchmark|Example|Fuzz)[A-Z_]\w*|#\[test\]"
    r"|(?:it|test|specify|scenario) +[\"'][^\n]*\bdo\b"
    r"|\[(?:Fact|Theory|Test|TestMethod|TestCase)\b|@Test\b|TEST(?:_F|_P)?\s*\("
    r"|TEST_CASE\s*\(|void test\w+\(|@pytest\.mark\.parametrize|@testset|public function test)"
)
_SKIP = (
    r"(?m)(?:@?pytest\.(?:mark\.)?(?:skip|skipif|xfail|importorskip)|@?unittest\.(?:skip\w*|expectedFailure)|self\.skipTest\("
    r"|\b(?:it|test|describe|context|suite)\.(?:skip|only|todo)\b|\b(?:xit|xdescribe|xcontext|xspecify|xscenario|xtest|fit|"
    r"fdescribe|fcontext)\s*[\s('\"]|this\.skip\(\)|\bt\.Skip\w*\(|#\[ignore|@Disabled\b"
    r"|@Ignore\b|GTEST_SKIP|DISABLED_|markTestSkipped|__test__\s*=\s*False|collect_ignore|SkipTest|raise\s+\w*Skip"
    r"|markTestIncomplete|\[Ignore|\bSkip\s*=\s*[\"@]|\[Explicit|XCTSkip|@(?:module|describe)?tag\s+:skip|@tag skip"
    r"|\bplan\s+skip_all|\bSKIP:|todo_skip|pendingWith"
    r"|^\s*pending\b|^\s*skip(?:\s+['\"]|_on\w*\(|\(|\s*$|_if)|\bskip:\s*(?:true|['\"])|\bignore\(\"|error\.SkipZigTest|"
    r"@test_(?:skip|broken)|robot:skip|^\s*@(?:wip|skip|ignore|disabled|pending|quarantine|flaky)\b"
    r"|Assume\.\w+\(\s*false|assume(?:True|That)\(\s*false|\[!(?:mayfail|shouldfail|hide)\]|disabled\(\)|\.skipIf\(\s*true|"
    r"\.runIf\(\s*false|\.todoIf\(|\.fails\(|skipUnless\(\s*False|skipIf\(\s*True"
    r"|^//go:build |^// \+build |^#!?\[cfg\((?:any\(\)|not\(test\))"
    r")"
)
_TOLERANCE = (
    r"\b(?:rtol|atol|abs|rel|delta|places|decimal|tolerance|epsilon|eps|timeout|max_\w+|maxDiff)\s*[=:]\s*|assert\s+True\b|"
    r"or\s+True\b|"
    r"toBeTruthy\(\)|toBeDefined\(\)|expect\.anything\(|mock\.ANY|not\.toThrow\(\)|\|\|\s*true\b|#\[allow|"
    r"except\s*(?:\w+\s*)?:\s*pass"
)
_LONGEST = 20_000
_LEAST = (
    r"(?i)\b((?:cov[\w-]*-)?fail[_-]under|min(?:imum)?[_-]?\w{0,24}|(?:branch|function|line|statement)s?|"
    r"(?:\w{1,24}[_-])?(?:threshold|coverage|ratio)"
    r"|level|score|msi|mutation\w*|numRuns|max_examples|PROPTEST_CASES|cases|iterations|trials|samples|repeats?|rounds)"
    r"[\"'>]{0,2}\s*[=:>( ]\s*[\"']?(-?\d+(?:\.\d+)?)"
)
"""Numbers that a check gets weaker by if they fall."""
_MOST = (
    r"(?i)\b(max[_-]?(?:warnings|complexity|errors|problems|issues|failures|violations|line-?length|params|statements)|"
    r"maxWarnings|r?a?tol"
    r"|tolerance|epsilon|allowed[_-]\w{1,16}|(?:error|warning)[_-]?budget|budget|retries|flaky[_-]\w{1,16}|timeout\w{0,8}|"
    r"limit\w{0,8})"
    r"[\"'>]{0,2}\s*[=:>( ]\s*[\"']?(-?\d+(?:\.\d+)?(?:e-?\d+)?)"
)
"""Numbers that a check gets weaker by if they rise."""

_MILD = r"(?i)\bseverity[\"']?\s*[:=]\s*[\"']?(?:warn\w*|info|none|ignore)\b"
"""A check that only warns from now on."""
_ANOTHER = r"(?m)^\s*- +[\"']?[a-z]\w+"
"""Something new in a list of YAML: a mild check of its own."""

_ASSERTIONS, _TESTS, _SKIPS, _TOLERANCES, _LEASTS, _MOSTS, _OPERATIONS, _METRICS, _CONSTANTS, _RANGES, _MILDER = range(11)
_HINTS = Hints(_ASSERTION, _TEST, _SKIP, _TOLERANCE, _LEAST, _MOST, OPERATION, METRIC, CONSTANT, r"\w ?[<>]=? ?\d", _MILD)
_SKIPPED = WRITTEN.add(_SKIP)
_ALL, _SKEWED = frozenset(range(11)), frozenset((_OPERATIONS, _METRICS))


def traits_of_change(removed: str, added: str) -> dict[str, str]:
    """Return how many assertions and tests a change takes away, and how many skips and loosened checks it adds.

    Example:
        >>> traits_of_change("assert f() == 1", "assert f() == 2"), traits_of_change("assert f(1)", "@pytest.mark.skip")
        ({'changes_assertion': '1'}, {'removes_assertion': '1', 'adds_skip': '1'})
        >>> traits_of_change("fail_under = 85", "fail_under = 60"), traits_of_change("fail_under = 85", "fail_under = 90")
        ({'loosens': 'fail_under 85 -> 60'}, {})
    """
    both = f"{removed}\n{added}"
    held = _HINTS.found(both) if len(both) <= _LONGEST else _ALL  # what is cut may end in words that the whole has not
    if not held:
        return {}
    found: dict[str, str] = {}
    old = new = 0
    if _ASSERTIONS in held:
        old, new = _count(_ASSERTION, removed), _count(_ASSERTION, added)
        if old > new:
            found["removes_assertion"] = str(old - new)
    if _TESTS in held and (less := _count(_TEST, removed) - _count(_TEST, added)) > 0:
        found["removes_test"] = str(less)
    if _SKIPS in held and (more := _count(_SKIP, added) - _count(_SKIP, removed)) > 0:
        found["adds_skip"] = str(more)
    if removed and _RANGES in held and len(both) <= _LONGEST and _is_widened(removed, added):
        found["weakens"] = "1"
    if _TOLERANCES in held and (more := _count(_TOLERANCE, added) - _count(_TOLERANCE, removed)) > 0:
        found["weakens"] = str(more)
    if _MILDER in held and _count(_MILD, added) > _count(_MILD, removed) and (removed or not pattern(_ANOTHER).search(added)):
        found["loosens"] = "severity error -> warn"
    if removed and added:
        bounds = _looser(_LEAST, removed, added, -1) if _LEASTS in held else ""
        bounds = bounds or (_looser(_MOST, removed, added, 1) if _MOSTS in held else "")
        if bounds:
            found["loosens"] = bounds
        if held >= _SKEWED and (skews := skewed(removed, added)):
            found["skews"] = skews
        if _CONSTANTS in held and (constants := changed_constants(removed, added)):
            found["constants"] = constants
        if old and new >= old and sorted(removed.split()) != sorted(added.split()):
            found["changes_assertion"] = str(new)
    return found


def _is_widened(removed: str, added: str) -> bool:
    """Tell whether a comparison with one number becomes a range."""
    for name, number in pattern(r"(?:^|\W)([A-Za-z_][\w.]*) ?[!=]=+ ?(\d[\d_.]*)").findall(removed)[:8]:
        same = passing(rf"(?:^|\W){escaped(name)} ?[!=]=+ ?{escaped(number)}(?:\D|$)").search(added)
        if not same and passing(rf"(?:^|\W){escaped(name)} ?[<>]=? ?\d").search(added):
            return True
    return False


def skips_in(text: str) -> int:
    """Return how many skips a new text has.

    Example:
        >>> skips_in("@pytest.mark.skip\\ndef test_a(): pass")
        1
    """
    return _count(_SKIP, text) if _SKIPPED in WRITTEN.found(text) else 0


def _count(words: str, text: str) -> int:
    return sum(1 for _ in pattern(words).finditer(text)) if text else 0


def _looser(words: str, removed: str, added: str, sign: int) -> str:
    """Return the first bound whose number moves in the direction in which it lets more pass, with both numbers."""
    before: dict[str, float] = {}
    for found in pattern(words).finditer(removed[:_LONGEST]):
        before.setdefault(found.group(1).lower(), float(found.group(2)))
    for found in pattern(words).finditer(added[:_LONGEST]) if before else ():
        name, now = found.group(1).lower(), float(found.group(2))
        if name in before and (now - before[name]) * sign > 0:
            return f"{name} {before[name]:g} -> {now:g}"
    return ""
