"""Rules as data, for recall: `acts of a call, setting -> suspicions`; files in TOML, to which a project adds its own.

A file holds tables `[[rule]]` with `id`, `reason`, `weigh` (the question that `SettingJudge` asks of what the rule selects, see
`weighing`), `examples`, `counterexamples`, and `[[rule.when]]`, of which one must hold:

| key | holds if |
|---|---|
| kinds | the act is of one of these kinds (`act.KINDS`) |
| target, detail, via, argument | one of these patterns (RE2, either case) is found in it; the parts of `via` are joined by spaces |
| not_target, not_detail | none of them is |
| traits, not_traits | each named trait is there and its pattern is found in it, or none of them is so |
| among, not_among | its path touches, or does not, what one of these fields of the setting names |
| touch | how surely: `name`, `maybe` (the default), `above`, `overlap`, `inside` |
| concept, not_concept | one of these facts of `concepts.table.CONCEPTS` is true, or none |
| closed | the setting forbids one of these subjects of `phrases.SUBJECTS` |

Examples are shell commands, calls `{tool, arguments}` or acts `{kind, target, detail}`, in the file's `[setting]`; tests hold each
rule to all of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rosellm.roserlhf.config import nearest
from rosellm.roserlhf.errors import ConfigError, DtypeError, RecordError
from rosellm.roserlhf.guard.act import KINDS, Act
from rosellm.roserlhf.guard.concepts.locations import paths_of
from rosellm.roserlhf.guard.concepts.table import CONCEPTS
from rosellm.roserlhf.guard.grounds import Grounds, grounds_of
from rosellm.roserlhf.guard.paths import Touch
from rosellm.roserlhf.guard.patterns import PatternSet, Sieve, finder, may_be_found, pattern
from rosellm.roserlhf.guard.phrases import SUBJECTS
from rosellm.roserlhf.guard.places import FIELDS
from rosellm.roserlhf.guard.setting import Setting

QUESTIONS = (
    "certain", "told", "reading", "writing", "history", "source", "process", "runner", "patching", "forging", "proving", "address",
    "shortcut", "weakening", "answering", "opaque", "planted", "statement", "refused", "party", "service", "named", "scoring",
    "silencing", "steering", "sending", "rationed", "measuring", "cells",
    "shadowing", "swap", "constant", "stand-in", "telling", "pleasing",
    "admission", "report", "lookup", "invented", "leaked", "asking", "stated", "learning", "unpaid",
    "replaced", "rewritten",
    "resemblance",
)  # fmt: skip
"""What a judge may ask about what a rule selects."""
_PATTERNS = ("target", "detail", "via", "argument")
_NOT = ("not_target", "not_detail")
_WHEN = ("kinds", *_PATTERNS, *_NOT, "traits", "not_traits", "among", "not_among", "touch", "concept", "not_concept", "closed")
_RULE = ("id", "reason", "weigh", "when", "examples", "counterexamples")
_FILE = ("rule", "setting")


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rule that an act of a call met."""

    rule: str
    """The rule's id."""
    reason: str
    """Why such an act is suspicious, from the rule."""
    act: Act
    """What met it; its `argument` and `span` are the evidence."""


Condition = Callable[[Act, Grounds], bool]
_MOST_KNOWN, _MOST_SIFTED, _MOST_SIEVES = 2_048, 64, 32


@dataclass(frozen=True, slots=True)
class Words:
    """A condition on the text of an act: one of these patterns is found in it, or none."""

    of: str
    patterns: tuple[str, ...]
    wanted: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    id: str
    reason: str
    weigh: str
    when: tuple[tuple[tuple[str, ...], tuple[Words, ...], tuple[Condition, ...]], ...]
    """Kinds of acts, what their texts must hold, and what else must be true of one."""
    examples: tuple[Any, ...] = ()
    counterexamples: tuple[Any, ...] = ()
    setting: Mapping[str, Any] | None = None
    """Setting of the examples."""


_LONG_TARGET = frozenset(("text", "search", "decode", "fetch", "code", "resemblance", "opaque"))
"""Kinds of acts whose target is words or an address; of the others the detail may be long."""
_Asked = tuple[tuple[Rule, tuple[Condition, ...]], ...]


class _Sifted:
    """Rules of which some ask what is found in the longest text: that is looked at last."""

    def __init__(self, found: Callable[[str], frozenset[int]]) -> None:
        self.found = found
        self.known: dict[frozenset[int], _Asked] = {}
        """What is left to ask, by what is found there."""


class _OfKind:
    """The rules for acts of one kind; their patterns are looked for in one pass over each text."""

    def __init__(self, kind: str) -> None:
        self.checks: list[tuple[Rule, tuple[tuple[str, frozenset[int], bool], ...], tuple[Condition, ...]]] = []
        self._known: dict[tuple[Any, ...], _Asked | _Sifted] = {}
        """What is left to ask where the same patterns are found and the same traits are there: the same few come back."""
        self._longest, self._shorter = ("target", "detail") if kind in _LONG_TARGET else ("detail", "target")
        self._kind = kind
        self._texts: dict[str, dict[str, int]] = {}
        self._sets: dict[str, PatternSet] = {}
        """What finds the patterns in each text but the longest one."""
        self._found = PatternSet(()).found
        """What is found in the shorter one of target and detail."""
        self._argument: Callable[[str], frozenset[int]] | None = None
        """What finds them in the argument, if a rule asks."""
        self._asks_via = False
        self._sieves: dict[frozenset[int], Sieve] = {}
        """By the patterns that they look for in the longest text."""
        self.asks_places = False
        """Whether a rule asks what an act touches, and its target is the only path that it is about, see `paths_of`."""
        self.asks_modules = False
        """Whether a dotted target is about another path, too."""

    def add(self, rule: Rule, words: tuple[Words, ...], conditions: tuple[Condition, ...]) -> None:
        """Take in one alternative of a rule."""
        wanted = []
        for one in words:
            known = self._texts.setdefault(one.of, {})
            wanted.append((one.of, frozenset(known.setdefault(text, len(known)) for text in one.patterns), one.wanted))
        self.checks.append((rule, tuple(wanted), conditions))

    def compile(self) -> None:
        """Make the sets of patterns."""
        self._sets = {of: PatternSet(list(texts)) for of, texts in self._texts.items() if of != self._longest}
        if self._shorter in self._sets:
            self._found = self._sets[self._shorter].found
        if "argument" in self._sets:
            self._argument = self._sets["argument"].found
        self._asks_via = "via" in self._sets
        asks = any(isinstance(one, _Among) for *_, conditions in self.checks for one in conditions)
        self.asks_places = asks and self._kind != "link"
        self.asks_modules = self._kind == "import"

    def candidates(self, act: Act, idle: frozenset[str], near: frozenset[str] | None = None) -> _Asked:
        """Return the rules whose patterns an act's texts meet and whose traits it has, with what else must be true of it.

        No rule is met that asks for a fact of those that are `idle`, nor, where it is known `near` which fields of the setting an
        act touches something, one that asks for others.
        """
        via = act.via if self._asks_via else ()
        argument = self._argument(act.argument) if self._argument is not None else None
        key: tuple[Any, ...] = (idle, near, via, argument, self._found(getattr(act, self._shorter)))
        if act.traits:
            key += (*act.traits,)
        asked = self._known.get(key)
        if asked is None:
            asked = self._asked(key, act, idle, near)
        if isinstance(asked, tuple):
            return asked
        found_there = asked.found(getattr(act, self._longest))
        last = asked.known.get(found_there)
        return self._last(asked, found_there, act, idle, near) if last is None else last

    def _asked(self, key: tuple[Any, ...], act: Act, idle: frozenset[str], near: frozenset[str] | None) -> _Asked | _Sifted:
        """Return, and remember by a key, what is left to ask by what is found in all texts but the longest."""
        by_text = self._by_text(act)
        left = list(self._left(by_text, act, idle, near))
        open_ones = frozenset(one for _, words, _ in left for of, ids, _ in words if of not in by_text for one in ids)
        asked = _Sifted(self._sieve(open_ones).found) if open_ones else tuple((rule, conditions) for rule, _, conditions in left)
        if len(self._known) >= _MOST_KNOWN:
            self._known = {}
        self._known[key] = asked
        return asked

    def _last(self, asked: _Sifted, found: frozenset[int], act: Act, idle: frozenset[str], near: frozenset[str] | None) -> _Asked:
        """Return, and remember, what is left to ask by what was found in all texts."""
        left = self._left({**self._by_text(act), self._longest: found}, act, idle, near)
        if len(asked.known) >= _MOST_SIFTED:
            asked.known = {}
        asked.known[found] = last = tuple((rule, conditions) for rule, _, conditions in left)
        return last

    def _by_text(self, act: Act) -> dict[str, frozenset[int]]:
        """Return what is found in all texts but the longest."""
        return {of: found.found(" ".join(act.via) if of == "via" else getattr(act, of)) for of, found in self._sets.items()}

    def _sieve(self, ids: frozenset[int]) -> Sieve:
        """Return what looks for some patterns in the longest text."""
        if ids not in self._sieves:
            if len(self._sieves) >= _MOST_SIEVES:
                self._sieves = {}
            self._sieves[ids] = Sieve({number: text for text, number in self._texts[self._longest].items() if number in ids})
        return self._sieves[ids]

    def _left(
        self, held: Mapping[str, frozenset[int]], act: Act, idle: frozenset[str], near: frozenset[str] | None
    ) -> Iterator[tuple[Rule, Any, tuple[Condition, ...]]]:
        """Yield the rules that what was found in some texts and the traits do not rule out, their words, what else they ask."""
        for rule, words, conditions in self.checks:
            if any(of in held and held[of].isdisjoint(ids) is wanted for of, ids, wanted in words):
                continue
            if near is not None and any(isinstance(one, _Among) and near.isdisjoint(one.fields) for one in conditions):
                continue
            sure: list[_Concept | _Trait] = [one for one in conditions if isinstance(one, _Concept) and one.names <= idle]
            sure += [one for one in conditions if isinstance(one, _Trait) and one.name not in act.traits]
            if not any(one.wanted for one in sure):
                yield rule, words, tuple(one.ask if isinstance(one, _Concept) else one for one in conditions if one not in sure)


class Rules:
    """A set of rules, ready to be asked."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules: dict[str, Rule] = {}
        self._by_kind: dict[str, _OfKind] = {kind: _OfKind(kind) for kind in KINDS}
        for rule in rules:
            if rule.id in self._rules:
                raise ConfigError(f"rule {rule.id} must have an id of its own, got one that another rule has")
            self._rules[rule.id] = rule
            for kinds, words, conditions in rule.when:
                for kind in kinds:
                    self._by_kind[kind].add(rule, words, conditions)
        for found in self._by_kind.values():
            found.compile()

    @classmethod
    def read(cls, *files: Path | str, builtin: bool = True) -> Rules:
        """Read the rules that come with the package and those of further files.

        Raises:
            ConfigError: a file that is no TOML, an unknown key (the nearest is named), a bad pattern, a missing or repeated id.
            OSError: a file that cannot be read.

        Example:
            >>> rules = Rules.read()
            >>> from rosellm.roserlhf.guard.setting import Setting
            >>> setting = Setting(workdir="/app", hidden_tests=("/eval/**",))
            >>> [one.rule for one in rules.suspicions([Act("read", "/eval/test_a.py")], setting)][0]
            'protected-read'
        """
        texts = list(_builtin()) if builtin else []
        texts += [(str(file), _text_of(Path(file))) for file in files]
        found: dict[str, tuple[str, Rule]] = {}
        for name, text in texts:
            for rule in rules_of(text, name):
                if rule.id in found:
                    raise ConfigError(f"{name}: rule {rule.id} must have an id of its own, {found[rule.id][0]} has one of that id")
                found[rule.id] = (name, rule)
        return cls(rule for _, rule in found.values())

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def __getitem__(self, rule: str) -> Rule:
        return self._rules[rule]

    def suspicions(self, acts: Iterable[Act], setting: Setting) -> list[Suspicion]:
        """Return every rule that an act meets, in the order of the acts; each rule once for the same kind, target and detail."""
        grounds = grounds_of(setting)
        idle = grounds.idle
        found: dict[tuple[str, str, str, str], tuple[Rule, Act]] = {}
        acts = tuple(acts)
        by_kind, near = self._by_kind, grounds.places.known_near
        for act in acts:
            rules = by_kind[act.kind]
            fields = None
            if (
                rules.asks_places
                and (not act.traits or _OTHER_PATH_TRAITS.isdisjoint(act.traits))
                and not (rules.asks_modules and "." in act.target)
            ):
                fields = near.get(act.target)
                if fields is None:
                    fields = grounds.places.near(act.target)
            for rule, conditions in rules.candidates(act, idle, fields):
                for condition in conditions:
                    if not condition(act, grounds):
                        break
                else:
                    found.setdefault((rule.id, act.kind, act.target, act.detail), (rule, act))
        return [Suspicion(rule.id, rule.reason, act) for rule, act in found.values()]

    def pass_words_of(self, letters: frozenset[str]) -> bool:
        """Tell whether words of these ASCII letters alone, of which nothing else is known, can meet no rule; in doubt they can.

        Example:
            >>> Rules.read().pass_words_of(frozenset("0123456789")), Rules.read().pass_words_of(frozenset("abcdefghijklmnopqrst "))
            (True, False)
        """

        def rules_out(one: Words) -> bool:
            if not one.wanted or one.of not in ("target", "detail"):
                return False
            if one.of == "detail":
                return not any(pattern(text, ignore_case=True).search("") for text in one.patterns)
            return not any(may_be_found(text, letters) for text in one.patterns)

        return all(
            any(map(rules_out, words)) or any(isinstance(one, _Trait) and one.wanted for one in conditions)
            for rule in self
            for kinds, words, conditions in rule.when
            if "text" in kinds
        )


def _builtin() -> Iterator[tuple[str, str]]:
    folder = resources.files("rosellm.roserlhf.guard") / "rules"
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".toml"):
            yield file.name, file.read_text(encoding="utf-8")


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} must be UTF-8: {error}") from None


def rules_of(text: str, name: str) -> list[Rule]:
    """Read the rules of one file.

    Args:
        text: the file's TOML.
        name: what errors call it.

    Raises:
        ConfigError: see `Rules.read`.
    """
    try:
        given = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{name} must be TOML: {error}") from None
    _known(given, _FILE, name)
    tables = given.get("rule", [])
    if not isinstance(tables, list):
        raise ConfigError(f"{name} must hold tables [[rule]], got [rule]")
    setting = given.get("setting")
    if setting is not None:
        try:
            Setting.of(setting)
        except (DtypeError, RecordError) as error:
            raise ConfigError(f"{name}: {error}") from None
    return [_rule(table, f"{name}: rule {place + 1}", setting) for place, table in enumerate(tables)]


def _rule(table: Any, where: str, setting: Mapping[str, Any] | None) -> Rule:
    if isinstance(table, Mapping) and isinstance(table.get("id"), str):
        where = f"{where} ({table['id']})"
    _known(table, _RULE, where)
    for key in ("id", "reason"):
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise ConfigError(f"{where}: {key} must be a text, got {table.get(key)!r:.80}")
    weigh = table.get("weigh", "certain")
    if weigh not in QUESTIONS:
        raise ConfigError(
            f"{where}: weigh must be one of {', '.join(QUESTIONS)}, got {weigh!r:.80}{_did_you_mean(weigh, QUESTIONS)}"
        )
    alternatives = table.get("when")
    if not isinstance(alternatives, list) or not alternatives:
        raise ConfigError(f"{where}: when must be one or more tables [[rule.when]], got {alternatives!r:.80}")
    when = tuple(_when(one, f"{where}: when {place + 1}") for place, one in enumerate(alternatives))
    examples, counterexamples = (_examples(table.get(key, []), f"{where}: {key}") for key in ("examples", "counterexamples"))
    return Rule(table["id"], table["reason"], weigh, when, examples, counterexamples, setting)


def _examples(given: Any, where: str) -> tuple[Any, ...]:
    for one in given if isinstance(given, list) else [None]:
        if isinstance(one, str):
            continue
        is_call = isinstance(one, Mapping) and isinstance(one.get("tool"), str) and isinstance(one.get("arguments"), Mapping)
        if not is_call and not (isinstance(one, Mapping) and one.get("kind") in KINDS):
            requirement = "be a list of commands, of calls {tool, arguments} or of acts {kind, target, detail}"
            raise ConfigError(f"{where} must {requirement}, got {given!r:.80}")
    return tuple(given)


def _when(table: Mapping[str, Any], where: str) -> tuple[tuple[str, ...], tuple[Words, ...], tuple[Condition, ...]]:
    _known(table, _WHEN, where)
    kinds = _words(table.get("kinds"), f"{where}: kinds", KINDS)
    conditions: list[Condition] = []
    words = tuple(
        Words(key.removeprefix("not_"), _texts(table[key], f"{where}: {key}"), not key.startswith("not_"))
        for key in (*_PATTERNS, *_NOT)
        if key in table
    )
    for key in ("traits", "not_traits"):
        traits = table.get(key, {})
        if not isinstance(traits, Mapping):
            raise ConfigError(f"{where}: {key} must be a table of patterns, got {traits!r:.80}")
        for name, value in traits.items():
            conditions.append(_Trait(name, _patterns(value, f"{where}: {key}.{name}"), wanted=key == "traits"))
    touch = table.get("touch", "maybe")
    levels = [level.name.lower() for level in Touch if level]
    if touch not in levels:
        raise ConfigError(f"{where}: touch must be one of {', '.join(levels)}, got {touch!r:.80}{_did_you_mean(touch, levels)}")
    if "among" in table:
        conditions.append(_Among(_words(table["among"], f"{where}: among", FIELDS), Touch[touch.upper()]))
    if "closed" in table:
        conditions.append(_closed(_words(table["closed"], f"{where}: closed", tuple(SUBJECTS))))
    for key, wanted in (("concept", True), ("not_concept", False)):
        if key in table:
            conditions.append(_Concept(_words(table[key], f"{where}: {key}", tuple(CONCEPTS)), wanted=wanted))
    if "not_among" in table:
        conditions.append(_not_among(_words(table["not_among"], f"{where}: not_among", FIELDS)))
    return kinds, words, tuple(conditions)


class _Trait:
    """A condition on a trait of an act: it is there and one of some patterns is found in it, or not."""

    def __init__(self, name: str, patterns: list[Any], *, wanted: bool) -> None:
        self.name = name
        self.wanted = wanted
        self._found = finder(patterns)

    def __call__(self, act: Act, grounds: Grounds) -> bool:
        value = act.traits.get(self.name)
        return (value is not None and self._found(value)) is self.wanted


_OTHER_PATH_TRAITS = frozenset(("path", "includes"))
"""Traits of acts that are about other paths than the target alone, see `paths_of`."""


class _Among:
    """A condition on what an act's paths touch."""

    def __init__(self, fields: tuple[str, ...], least: Touch) -> None:
        self.fields = fields
        self._least = least
        self._modules = not {"protected_read", "hidden_tests"}.isdisjoint(fields)

    def __call__(self, act: Act, grounds: Grounds) -> bool:
        fields, least = self.fields, self._least
        for path in paths_of(act, grounds.setting.workdir if self._modules else ""):
            if grounds.places.touch(path, *fields) >= least:
                return True
        return False


def _not_among(fields: tuple[str, ...]) -> Condition:
    return lambda act, grounds: grounds.places.touch(act.target, *fields) < Touch.OVERLAP


def _closed(names: tuple[str, ...]) -> Condition:
    return lambda act, grounds: not grounds.closed.isdisjoint(names)


class _Concept:
    """A condition on facts of an act: one of some is true, or none."""

    def __init__(self, names: tuple[str, ...], *, wanted: bool) -> None:
        self.names = frozenset(names)
        self.wanted = wanted
        facts = [CONCEPTS[name] for name in names]
        fact = facts[0] if len(facts) == 1 else lambda act, grounds: any(fact(act, grounds) for fact in facts)
        self.ask: Condition = fact if wanted else lambda act, grounds: not fact(act, grounds)

    def __call__(self, act: Act, grounds: Grounds) -> bool:
        return self.ask(act, grounds)


def _known(table: Any, keys: Sequence[str], where: str) -> None:
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} must be a table, got {table!r:.80}")
    for key in table:
        if key not in keys:
            raise ConfigError(f"{where}: unknown key {key}{_did_you_mean(key, keys) or '; known are ' + ', '.join(keys)}")


def _words(value: Any, where: str, allowed: Sequence[str]) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words:
        raise ConfigError(f"{where} must be one or more of {', '.join(allowed)}, got {value!r:.80}")
    for word in words:
        if word not in allowed:
            raise ConfigError(
                f"{where} must be one or more of {', '.join(allowed)}, got {word!r:.80}{_did_you_mean(word, allowed)}"
            )
    return tuple(words)


def _patterns(value: Any, where: str) -> list[Any]:
    return [pattern(text, ignore_case=True) for text in _texts(value, where)]


def _texts(value: Any, where: str) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{where} must be one or more patterns, got {value!r:.80}")
    for text in texts:
        try:
            pattern(text, ignore_case=True)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
    return tuple(texts)


def _did_you_mean(word: Any, known: Sequence[str]) -> str:
    near = nearest(word, tuple(known)) if isinstance(word, str) else []
    return f"; did you mean {near[0]}?" if near else ""
