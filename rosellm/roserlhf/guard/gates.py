"""What a setting says of the gates that work must pass: tests, lint, types, warnings, coverage. `setting -> how they are kept`."""

from __future__ import annotations

from dataclasses import dataclass

from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.setting import Setting

_TESTS = (
    r"(?i)\b(tests?|specs?|test (suites?|cases?|files?|modules?)|suites?|assert(ion)?s?|expectations?"
    r"|expected (values?|outputs?|results?)"
    r"|snapshots?|goldens?|golden files?|fixtures?|_test\.go|scenarios?|features?/)\b"
)
_WEAKENING = (
    r"(?i)\b(weaken\w*|skip(s|ped|ping)?|delet\w+|remov\w+|disabl\w+|x-?fail\w*|quarantin\w+|comment(ed|ing)? out"
    r"|loosen\w*|relax\w*"
    r"|regenerat\w+|adapt(ed|ing|s)?|rewrit\w+|mark\w* as (skipped|expected|flaky)|silenc\w+|ignor(e|ed|ing)"
    r"|deselect\w*|drop(ped|ping)?|lower\w*)\b"
)
_CHANGING = (
    r"(?i)\b(chang\w*|edit\w*|modif\w+|touch\w*|alter\w*|writ\w+|updat\w+|unchanged|untouched|frozen|fixed|locked"
    r"|as (they|it) (are|is))\b"
)
_REFUSES = (
    r"(?i)\b(no|not|n't|don'?t|never|nor|neither|without|mustn'?t|cannot|can'?t|forbid\w*|forbidden|prohibit\w*"
    r"|off limits|banned|disallow\w*"
    r"|rather than|instead of|nothing else|only|refrain|avoid|against the rules|counts as cheating|is cheating"
    r"|not allowed|unchanged|untouched"
    r"|frozen|fixed|locked|as (they|it) (are|is)|stays?|keep|kept|remain|read-only)\b"
)
_KINDS = {
    "lint": r"(?i)\b(lint\w*|ruff|flake8|pylint|eslint|tslint|biome|rubocop|golangci\S*|staticcheck|clippy|checkstyle"
    "|pmd|spotbugs|ktlint|detekt"
    r"|phpcs|phpstan|psalm|swiftlint|shellcheck|stylelint|hadolint|clang-tidy|cppcheck|noqa|nolint|perlcritic|credo|"
    r"dialyzer|hlint|sonar\w*"
    r"|scalafix|black|style (check|guide|rules?)|findings|rules?et|(lint|style) errors?)\b",
    "types": r"(?i)\b(mypy|pyright|basedpyright|pyre|pytype|tsc|type[- ]?(check\w*|errors?|safe\w*|annotations?"
    "|ignore)|typed|typing|strict( mode)?"
    r"|ts-ignore|sorbet|flow|typescript|types?:? (are|check))\b",
    "warnings": r"(?i)(-Werror|-Wall|-Wextra|-Wno-\w+|\bwarnings?\b|\bcompiler diagnostics?\b|deny\(|\bnullable\b"
    "|TreatWarningsAsErrors|-Xlint)",
    "coverage": r"(?i)\b(coverage|cov|fail_under|covered|mutation (score|testing)|branch cov\w*)\b",
    "security": r"(?i)\b(bandit|semgrep|nosec|trivy|snyk|codeql|gosec|security (scan|findings?)|audit)\b",
}
_GATES = (
    r"(?i)\b(gates?|thresholds?|ci|checks?|pipelines?|workflows?|quality|config\w*|settings?|rules?|baselines?|budgets?|limits?)\b"
)
_SOFTENING = (
    r"(?i)\b(weaken\w*|silenc\w+|suppress\w*|ignor\w+|disabl\w+|switch\w*( \S+){0,3} off|turn\w*( \S+){0,3} off|off\b"
    r"|lower\w*|loosen\w*|relax\w*"
    r"|exclud\w+|exempt\w*|skip\w*|by-?pass\w*|circumvent\w*|baselin\w+|noqa|nolint|type: ?ignore|ts-ignore"
    r"|eslint-disable|pragma|allow\(|"
    r"@suppress\w*|reduc\w+|downgrad\w+|hid(e|ing)|blanket|touch\w*|chang\w+|edit\w*|modif\w+)\b"
)
_CAUSES = (
    r"(?i)\b(fix|repair|solve|address|correct)\w* (the |their |its |all |every |each )*(\w+ )?(causes?|code|errors?"
    r"|findings?|problems?|warnings?|issues?|violations?)\b"
)
_SOME = r"(?i)\b(only|except|unless|other than|apart from|specific|narrow|single|justified|with a (reason|code|comment))\b"


@dataclass(frozen=True)
class Gates:
    """How a setting keeps what work must pass."""

    weakening: bool = False
    """Tests must not be deleted, skipped or weakened, whoever may write them."""
    tests: bool = False
    """Existing tests must stay as they are, by words."""
    kinds: frozenset[str] = frozenset()
    """Other gates that must not be softened: `lint`, `types`, `warnings`, `coverage`, `security`."""
    races: bool = False
    """A detector of races or of wrong memory accesses looks at the work."""
    some: bool = False
    """Single, reasoned exemptions are allowed."""
    all_else: bool = False
    """Nothing may change but what the setting names."""


def gates_of(setting: Setting) -> Gates:
    """Read the words of a setting, clause by clause.

    Example:
        >>> found = gates_of(Setting(task="Make mypy and ruff pass. Fix the code; do not silence errors. Never skip a test."))
        >>> sorted(found.kinds), found.weakening, found.some
        (['lint', 'types'], True, False)
        >>> gates_of(Setting(task="Fix the types. `# noqa` only with a code and reason; don't weaken the gates.")).some
        True
        >>> found = gates_of(Setting(task="`make lint` runs ruff. Repair the code; tests may be added, existing ones not skipped."))
        >>> sorted(found.kinds), found.some, found.weakening
        (['lint'], True, True)
        >>> gates_of(Setting(task="Remove the skipped tests of the old parser and add type hints."))
        Gates(weakening=False, tests=False, kinds=frozenset(), races=False, some=False, all_else=False)
    """
    said = [setting.task, *setting.protected_write, *(text for text in _strings(dict(setting.others)))]
    named = {name for name, words in _KINDS.items() if pattern(words).search(" ".join((*said, *setting.verifier)))}
    weakening = tests = some = all_else = False
    kinds: set[str] = set()
    for place, text in enumerate(said):
        listed = 0 < place <= len(setting.protected_write)
        for clause in _clauses(pattern(_ANNOUNCED).sub(r"\1 ", text)):
            weakening = weakening or pattern(_STRICT).search(clause) is not None
            refuses = pattern(_REFUSES).search(clause) is not None or (listed and " " in clause)
            all_else = all_else or pattern(_ONLY).search(clause) is not None
            if not refuses:
                continue
            if pattern(_TESTS).search(clause) or (pattern(_ONES).search(clause) and pattern(_TESTS).search(text)):
                weakening = weakening or pattern(_WEAKENING).search(clause) is not None
                tests = tests or pattern(_CHANGING).search(clause) is not None
            if pattern(_SOFTENING).search(clause):
                about = {name for name, words in _KINDS.items() if pattern(words).search(clause)}
                if not about and pattern(_GATES).search(clause) and pattern(_PLAINLY).search(clause):
                    about = named
                if not about and pattern(_PLAINLY).search(clause) and pattern(_ERRORS).search(clause):
                    about = named
                kinds |= about
                some = some or (bool(about) and pattern(_SOME).search(clause) is not None)
    if named and pattern(_CAUSES).search(setting.task):
        some = some or not kinds
        kinds |= named
    races = pattern(_DETECTORS).search(" ".join((*said, *setting.verifier))) is not None
    return Gates(weakening, tests, frozenset(kinds), races, some, all_else)


_DETECTORS = (
    r"(?i)\brace detect(?:or|ion)\b|(?:^|\s)-race\b|\b(?:thread|address|memory|undefined[- ]behaviou?r)"
    r" ?sanitizers?\b|\b[tamu]b?san\b"
    r"|-fsanitize\b|\bsanitizers?\b|\b(?:valgrind|helgrind|memcheck|miri|data[- ]race[- ]free|race[- ]free)\b"
)
_STRICT = (
    r"(?i)\b(tests?|specs?|suites?|assert(ion)?s?|checks?|expectations?)\b[^.;]{0,80}"
    r"\b(at least as|no less|as) (strict|strong|tight|severe)(ly)?\b"
    r"|\b(every|each|all|any) (of the )?(existing |present |old |current |other )?(tests?|specs?|assertions?)"
    r" (has|have|must|needs?|should|is|are)"
    r" (to )?(keep|go on|continue|still) (on )?(running|to run|run)\b"
)
"""Tests must go on to ask as much as they do, whoever repairs them."""
_ANNOUNCED = r"(?i)\b(not allowed|forbidden|prohibited|banned|never):\s"
"""Says of what comes after the colon that it is refused."""
_ONES = r"(?i)\b(existing|present|given|old|current|these|those|other|visible) ones\b|\bthey (must|may|are)\b|\bthem\b"
_PLAINLY = (
    r"(?i)\b(weaken\w*|silenc\w+|suppress\w*|ignor\w+|disabl\w+|switch\w*( \S+){0,3} off|turn\w*( \S+){0,3} off"
    r"|lower\w*|loosen\w*|relax\w*|exclud\w+"
    r"|exempt\w*|by-?pass\w*|circumvent\w*|baselin\w+|downgrad\w+)\b"
)
_ERRORS = (
    r"(?i)\b(errors?|findings?|warnings?|violations?|diagnostics?|messages?|reports?|offen[cs]es?|complaints?"
    r"|comments?|directives?)\b"
)
_ONLY = (
    r"(?i)\b((nothing else|no other files?|nothing but|anything else|none of the other files)\b[^.;]{0,60}\b(chang"
    r"|edit|modif|touch|writ|alter)\w*"
    r"|(change|edit|touch|modify)\w* (nothing (else|but)|only\b)|only [^.;]{0,60}\b(may|can|must|should|is|are)( to)? "
    r"(be )?(chang|edit|modif|touch|writ)\w*|(all other files|everything else|all else|the rest) (stays?|must stay"
    r"|remains?|is|are) "
    r"(as|unchanged|untouched|fixed|frozen|off|read|not)|by changing [^.;]{0,40} only)\b"
)


def _clauses(text: str) -> list[str]:
    whole = text.replace("type: ignore", "type:ignore")
    return [one for one in pattern(r"[.;!?](?:\s|$)|\n|: ").split(whole) if one and one.strip()]


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, list | tuple):
        return [text for inner in value for text in _strings(inner)]
    return []
