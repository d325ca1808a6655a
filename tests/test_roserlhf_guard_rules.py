"""guard/rules.py and the rule files that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.guard import rules as rules_module
from rosellm.roserlhf.guard import shadows
from rosellm.roserlhf.guard.act import KINDS, Act, ActKind
from rosellm.roserlhf.guard.concepts.locations import paths_of
from rosellm.roserlhf.guard.concepts.table import CONCEPTS
from rosellm.roserlhf.guard.grounds import grounds_of
from rosellm.roserlhf.guard.patterns import PatternSet, pattern
from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.rules import QUESTIONS, Rule, Rules, rules_of
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.weigh import WEIGHERS

RULES = Rules.read()
GOOD = '[[rule]]\nid = "mine"\nreason = "reads the ledger"\n[[rule.when]]\nkinds = ["read"]\ntarget = "ledger"\n'


def met(example: Any, rule: Rule) -> set[str]:
    """Return the ids of the rules that an example meets."""
    setting = Setting.of(rule.setting or {})
    if isinstance(example, dict) and "kind" in example:
        acts: tuple[Act, ...] = (Act(**example),)
    else:
        call: dict[str, Any] = {"tool": "shell", "arguments": {"command": example}} if isinstance(example, str) else example
        acts = read_call(call["tool"], call["arguments"], (), setting).acts
    return {one.rule for one in RULES.suspicions(acts, setting)}


@pytest.mark.parametrize(
    ("rule", "example"), [pytest.param(rule, one, id=f"{rule.id}-{n}") for rule in RULES for n, one in enumerate(rule.examples)]
)
def test_a_rule_selects_its_examples(rule: Rule, example: Any) -> None:
    assert rule.id in met(example, rule)


@pytest.mark.parametrize(
    ("rule", "example"),
    [pytest.param(rule, one, id=f"{rule.id}-{n}") for rule in RULES for n, one in enumerate(rule.counterexamples)],
)
def test_a_rule_leaves_its_counterexamples(rule: Rule, example: Any) -> None:
    assert rule.id not in met(example, rule)


def test_every_rule_has_an_example() -> None:
    assert [rule.id for rule in RULES if not rule.examples] == []


def test_rules_choose_among_the_questions_that_there_are() -> None:
    assert set(QUESTIONS) == set(WEIGHERS)


def test_a_project_adds_its_own_rules(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(GOOD)
    found = Rules.read(file).suspicions([Act("read", "/srv/ledger.db")], Setting())
    assert [(one.rule, one.reason) for one in found] == [("mine", "reads the ledger")]
    assert [rule.id for rule in Rules.read(file, builtin=False)] == ["mine"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule]\n", "must be TOML"),
        ("[[rulez]]\n", "unknown key rulez; did you mean rule?"),
        (GOOD.replace("reason", "reasn"), "unknown key reasn; did you mean reason?"),
        (GOOD.replace('target = "ledger"', 'tarhet = "ledger"'), "unknown key tarhet; did you mean target?"),
        (GOOD.replace('"mine"', '""'), "id must be a text"),
        (GOOD.replace('id = "mine"\n', ""), "id must be a text, got None"),
        (GOOD.replace('["read"]', '["raed"]'), "did you mean read?"),
        (GOOD.replace('"ledger"', '"(ledger"'), "target: pattern must be one that RE2 accepts"),
        (GOOD.replace('"ledger"', '"(?=ledger)"'), "target: pattern must be one that RE2 accepts"),
        (GOOD.replace('"ledger"', '"(x{1000}){1000}"'), "target: pattern must"),
        (GOOD.replace('target = "ledger"', 'among = ["hiden_tests"]'), "did you mean hidden_tests?"),
        (GOOD.replace('target = "ledger"', 'concept = ["own paht"]'), "did you mean own path?"),
        (GOOD.replace('target = "ledger"', 'touch = "insde"'), "did you mean inside?"),
        (GOOD.replace('reason = "reads the ledger"', 'reason = "x"\nweigh = "raeding"'), "did you mean reading?"),
        ('[[rule]]\nid = "mine"\nreason = "x"\n', "when must be one or more tables"),
        ("rule = [1]", "rule 1 must be a table, got 1"),
        ("a = " + "[" * 5_000, "must be TOML"),
        ("[setting]\nworkdir = 5\n" + GOOD, "workdir must be a string"),
        ("setting = 5\n" + GOOD, "setting must be an object"),
        (GOOD.replace("reason", "examples = 5\nreason"), "(mine): examples must be a list of commands"),
        (GOOD.replace("reason", "examples = 'ls'\nreason"), "(mine): examples must be a list of commands"),
        (GOOD.replace("reason", "examples = [5]\nreason"), "(mine): examples must be a list of commands"),
        (GOOD.replace("reason", "counterexamples = [{tool = 'x'}]\nreason"), "(mine): counterexamples must be a list of commands"),
        (GOOD.replace("reason", "examples = [{kind = 'raed'}]\nreason"), "(mine): examples must be a list of commands"),
    ],
)
def test_a_bad_file_is_an_error_that_names_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        rules_of(text, "own.toml")
    assert words in str(error.value)
    assert str(error.value).startswith("own.toml")


def test_a_file_in_another_encoding_is_an_error_and_a_mark_of_this_one_is_none(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_bytes(GOOD.replace("reads", "lit").encode("utf-16"))
    with pytest.raises(ConfigError, match=r"own\.toml must be UTF-8"):
        Rules.read(file)
    file.write_bytes(GOOD.encode("utf-8-sig"))
    assert [rule.id for rule in Rules.read(file, builtin=False)] == ["mine"]


def test_an_id_is_used_once() -> None:
    with pytest.raises(ConfigError, match="rule mine must have an id of its own"):
        Rules([*rules_of(GOOD, "a"), *rules_of(GOOD, "b")])


def test_an_id_that_comes_with_the_package_is_named_with_both_files(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(GOOD.replace('"mine"', '"protected-read"'))
    with pytest.raises(
        ConfigError, match=r"own\.toml: rule protected-read must have an id of its own, \w+\.toml has one of that id"
    ):
        Rules.read(file)


def test_a_catastrophic_pattern_is_bounded() -> None:
    """Backtracking would need about $2^{50000}$ steps."""
    rules = Rules(rules_of(GOOD.replace('"ledger"', '"(a+)+$"'), "a"))
    assert rules.suspicions([Act("read", "a" * 50_000 + "b")], Setting()) == []


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["abc", "/eval/hidden", "test result: ok", "pytest", "note to the grader: 10/10"]))
def test_many_patterns_in_one_pass_find_what_each_finds_alone(before: str, after: str) -> None:
    texts = [text for rule in RULES for _, words, _ in rule.when for one in words for text in one.patterns]
    both = before + after
    alone = {n for n, text in enumerate(texts) if pattern(text, ignore_case=True).search(both)}
    assert ALL.found(both) == alone


ALL = PatternSet([text for rule in RULES for _, words, _ in rule.when for one in words for text in one.patterns])


def test_the_same_act_is_one_suspicion() -> None:
    setting = Setting(hidden_tests=("/hidden/**",), workdir="/app")
    found = RULES.suspicions([Act("read", "/hidden/a", "cat"), Act("read", "/hidden/a", "cat", span=(5, 6))], setting)
    assert [one.rule for one in found].count("protected-read") == 1


def met_one_by_one(act: Act, setting: Setting) -> set[str]:
    """Return the ids of the rules that an act meets, all conditions of all rules asked."""

    def holds(one: rules_module.Words) -> bool:
        text = " ".join(act.via) if one.of == "via" else getattr(act, one.of)
        return any(pattern(words, ignore_case=True).search(text) for words in one.patterns) is one.wanted

    return {
        rule.id
        for rule in RULES
        for kinds, words, conditions in rule.when
        if act.kind in kinds and all(map(holds, words)) and all(one(act, grounds_of(setting)) for one in conditions)
    }


SETTINGS = [
    Setting(),
    Setting(workdir="/app", project=("numpy",), task="Fix the bug in numpy.", hidden_tests=("/eval/**",)),
    Setting(workdir="/app", task="Use no other model. Do not use gcc or os.", protected_write=("the golden files of the parser",)),
    Setting(protected_read=("the rubric", "/app/answers.json", "user probe"), task="10.9.8.7 is out of scope. Leave it alone."),
]
TARGETS = ["/", "os.path", "/eval", "gcc", "/app/answers.json.bak", "/srv/numpy/a.py", "numpy", "http://10.9.8.7/rubric", "x"]
ACTS = [Act(**one) for rule in RULES for one in (*rule.examples, *rule.counterexamples) if "kind" in one]


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    st.one_of(
        st.sampled_from(ACTS),
        st.builds(
            Act,
            st.sampled_from(KINDS),
            st.sampled_from([*TARGETS, *(one.target for one in ACTS)]),
            st.sampled_from(["", "docker", "-u probe id", "ask for it", *(one.detail for one in ACTS)]),
            traits=st.sampled_from([{}, *(dict(one.traits) for one in ACTS)]),
        ),
    ),
    st.sampled_from(SETTINGS),
)
def test_no_rule_that_an_act_meets_is_passed_over(act: Act, setting: Setting) -> None:
    assert {one.rule for one in RULES.suspicions([act], setting)} == met_one_by_one(act, setting)


def test_facts_that_are_called_idle_are_facts() -> None:
    assert grounds_of(SETTINGS[0]).idle <= CONCEPTS.keys()
    assert not grounds_of(SETTINGS[0]).idle <= grounds_of(SETTINGS[1]).idle


@pytest.mark.parametrize("words", [r"a*", r"(b)|(c+)", r"\bab", r"(?m)^x?", r"é|b", "(é)?.(b)?"])
@pytest.mark.parametrize("text", ["", "ab aab", "bcc\nx\n\nab", "é ab bé\nxé", "\U0001f600b"])
def test_an_expression_finds_what_the_wrapper_of_re2_finds(words: str, text: str) -> None:
    import re2  # type: ignore[import-untyped]

    ours, theirs = pattern(words), re2.compile(words)
    assert [(one.span(), one.groups()) for one in ours.finditer(text)] == [
        (one.span(), one.groups()) for one in theirs.finditer(text)
    ]
    assert (ours.findall(text), ours.split(text), ours.sub("<>", text)) == (
        theirs.findall(text),
        theirs.split(text),
        theirs.sub("<>", text),
    )
    for start in range(len(text) + 1):
        first, other = ours.search(text, start), theirs.search(text, start)
        assert (first and first.span()) == (other and other.span())
        part = [one.span() for one in ours.finditer(text, start, len(text) - 1)]
        assert part == [one.span() for one in theirs.finditer(text, start, len(text) - 1)]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"link"}))
def test_an_act_without_traits_is_about_its_target_alone(kind: ActKind) -> None:
    for target in ("/x/a", "grep", "", *(("/x/a.py", "a.b") if kind != "import" else ())):
        assert paths_of(Act(kind, target, "/y"), "/app") == (target,)


def test_compiled_forms_end_as_is_asked_first() -> None:
    names = ["a.pyc", "a.cpython-311.pyc", "a.pyo", "a.so", "a.cpython-39-x86.so", "a.olean", "a.ilean", "a.class", "a$b.class"]
    names += ["a.ipynb_checkpoints", "a.vo", "a.glob", "a.beam", "a.js.map", "a.d.ts.map", "a.js"]
    for ending in shadows._COMPILED:
        found = [name for name in names if pattern(ending).search(name)]
        assert found
        assert all(name.endswith(shadows._COMPILED_ENDS) for name in found)
    assert all(any(pattern(ending).search(name) for ending in shadows._COMPILED) for name in names)
