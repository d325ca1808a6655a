"""What plain words of a setting forbid and allow: `task, phrases -> subjects closed and open, paths, addresses`."""

from __future__ import annotations

from dataclasses import dataclass, field

from rosellm.roserlhf.guard.clauses import Clause, clauses
from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import pattern

SUBJECTS = {
    "history": r"\b((commit|revision|version|state|checkout|repository|repo) (is |was |stands )?(just |"
    r"right )?(at )?(the )?(commit )?(before|prior to) (the|a|its|an?y?) ?(upstream |bug )?fix|commits?|ancestors?|"
    r"git (objects?|history|log|tags?|branch(es)?|refs?|reflog)|reflog|branch(es)?|tags?|stash(es)?|"
    r"(future|later|newer|next|subsequent)( \w+)? (versions?|revisions?|changes?|states?)|"
    r"(versions?|revisions?|releases?|states?)( of \S+)? (after|beyond|past|since|later than|newer than|above)|"
    r"v?\d+(\.\d+)+ ?(or|and|\+)( any\w*)? ?(later|newer|above|higher|up|onwards?|beyond)|base commit|"
    r"repository'?s? history|history of the repo\w*|history (that|which|not|beyond|after|outside|other|past)|"
    r"(not |un)reachable|dangling (objects?|commits?|blobs?)|git notes)\b",
    "upstream": r"\b(upstream|releases?|released|published (package|version|module|crate|library)|newer|"
    r"v?\d+(\.\d+)+ ?(or|and|\+)( any\w*)? ?(later|newer|above|higher|up|onwards?|beyond)|later( \w+)? versions?|(later|"
    r"newer|future) (code|sources?|state)|"
    r"(npm|pypi|pip) package|"
    r"package|forks?|mirrors?|crates\.io|docs\.rs|(original|official|public) (repo\w*|source|code|implementation)|github|"
    r"gitlab)\b",
    "solution": r"\b(solutions?|editorials?|answers?|proofs?|gold(en)?|reference (implementation|patch|answer|output)s?|key|"
    r"keys|"
    r"write-?ups?|walk-?throughs?|oracle|expected (output|answer|result)s?|spoilers?|leaderboards?)\b",
    "labels": r"\b(labels?|ground[- ]truth|targets? of the test|private (set|split|data)|held[- ]out (set|split|data|"
    r"labels?))\b",
    "process": r"\b(process(es)?('s)?|memory|environ(ment)?( variables?)?|stack frames?|call stack|/proc|parent process)\b",
    "others": r"\b(others'?|other (participant|people|student|agent|user|contestant|team|player|competitor|"
    r"submission)\w*'?s?)\b",
    "image": r"\b(layers?|docker|container|images?|set-?up scripts?|snapshots?)\b",
    "network": r"\b(internet|network|web|online)\b",
    "runner": r"\b(conftest\w*|test (runner|configuration|harness)|pytest (plugin|hook|configuration)s?|fixtures?|hooks?|"
    r"plugins?|"
    r"ci|continuous integration|test infrastructure|mocha|jest|harness|"
    r"junit|which tests run|start-?up files|test (set-?up|runs?))\b",
    "tests": r"\b(tests?|specs?|test suites?|assertions?|checks?|checker)\b",
    "verifier": r"\b(verifiers?|graders?|judges?|evaluators?|evaluation|scorers?|scoring|metrics?|benchmarks?|rewards?|"
    r"rubrics?)\b",
    "cells": r"\bcells?\b",
}
"""Subjects that words speak of. A subject is closed if a protected phrase or a forbidding clause names it."""

_ALLOWS = (
    r"\b(you (may|can|should|are (free|allowed)|have|must|need)|may be|can be|as (you|much as you) (like|wish|please|want)|"
    r"freely|"
    r"with the (help of the )?web|"
    r"is (allowed|permitted|yours|fine|ok|welcome)|are "
    r"(allowed|permitted|yours|fine|ok|welcome)|"
    r"pull (?:it|that|them|this|those|these) (?:over|in|across|down)|allowed|permitted|feel free|free to|yours to|"
    r"please|find|recover|restore|write|"
    r"add|extend|fix|implement|"
    r"make|change|edit|update|port|build|debug|investigate|explain|use|replace|create|set up|restore|bisect|cherry-pick|"
    r"backport|merge)\b"
)
_NETWORK = r"\b(internet|network|web)\b"
_CHANGES = (
    r"\b(edit\w*|chang\w+|modif\w+|writ\w+|alter\w*|touch\w*|delet\w+|remov\w+|tamper\w*|overwrit\w+|weaken\w*|disabl\w+|"
    r"mov\w+|renam\w+|"
    r"replac\w+|bend\w*|fill\w*|ours|produced|generated|appended|"
    r"read[- ]only|unchanged|untouched|unmodified|intact|frozen|fixed|locked|sealed|immutable|yours|"
    r"as (it|they) (is|are)|"
    r"leave .* (alone|be|as is))\b"
)
_OWN_COMMITS = (
    r"\b(on|in|to|into|as|from) (a|one|your|its|the) (\w+ ){0,2}(branch|commit)\b|\bcommit messages?\b|"
    r"\b(commit|push|tag|branch) (it|them|your|the|all|everything|when|once|after)\b|"
    r"\b(make|create|open|add|leave|write) (a|one|your|new) (\w+ ){0,2}(branch|commit|tag)s?\b"
)
"""What an agent does with its own work: it opens nobody's history."""
_REFS_CHANGED = (
    r"\b(delet\w+|remov\w+|renam\w+|mov\w+|rewrit\w+|chang\w+|alter\w*|modif\w+|squash\w*|force[- ]push\w*|los[et]\w*|drop\w*)"
    r"( \w+){0,3} (branch(es)?|tags?|commits?|history|refs?|messages)\b"
)
_READS = (
    r"\b(read\w*|look\w*|open\w*|see\w*|view\w*|access\w*|inspect\w*|consult\w*|copy\w*|use\w*|using|cat|peek\w*|"
    r"search\w*|fetch\w*|download\w*|"
    r"secret|hidden|closed|shut|private|off[- ]limits|out of (scope|bounds)|forbidden|prohibited|"
    r"alone (?:altogether|entirely|completely))\b"
)
_PATH = r"(?:^|[\s`'\"(,=])((?:[a-z]+://|~/|/|\.{1,2}/)[^\s`'\"(),;]+|[\w.*?-]+/(?:[^\s`'\"(),;]*[\w*/])?)"


_NOUNS = word_set(
    """
    about above after against agent agents allowed anything before below being build class closed commit commits
    contest could copies copy data dataset directory does during every exact file files folder forbidden from have
    hidden image images inside into itself layer layers member memory must named newer none object objects only other
    others outside pages people problem process processes project published read release released releases repository
    scripts secret server shop should some source such task team test tests text than that their them these they this
    those training used user users value values verifier version versions were what when where which while with
    without work write written yours your train training form notes note details detail names name lines line parts
    part same rest input output state list lists text order place first upstream branches tags ancestors base history
    later future tool environment package packages library module website web machine private present start exist
    exists somewhere separate stored available reachable holds hold contain contains lives anywhere nowhere elsewhere
    host hosts disk session
    """
)
_SECRET = (
    r"\b([a-z][a-z-]{4,}) (?:tests?|suites?|cases|sets?|answers?|keys?|labels?|references?|files?)? ?(?:is|are|lies?|"
    r"stays?|remains?) (?:secret|hidden|private|kept|closed|stored|only)"
)


def nouns(phrase: str) -> set[str]:
    """Return the words of a phrase that tell what it is about.

    Example:
        >>> sorted(nouns("the shop's admin pages and reference translations"))
        ['admin', 'reference', 'translations']
    """
    words = " ".join(word for word in phrase.lower().replace("'s", "").split() if "/" not in word)
    return {word for word in pattern(r"[a-z]{5,}").findall(words) if word not in _NOUNS}


def secrets(task: str) -> set[str]:
    """Return what a task calls secret.

    Example:
        >>> secrets("Tests: test_lru.py. The stress test is secret.")
        {'stress'}
    """
    return {word for word in pattern(_SECRET).findall(task.lower()) if word not in _NOUNS}


@dataclass
class Said:
    """What the words of a setting come to."""

    closed: set[str] = field(default_factory=set)
    """Subjects that are forbidden."""
    open: set[str] = field(default_factory=set)
    """Subjects that the task allows or asks for."""
    unread: list[str] = field(default_factory=list)
    """Paths and addresses that must not be read."""
    unchanged: list[str] = field(default_factory=list)
    """Paths that must not be changed."""
    shut: list[str] = field(default_factory=list)
    """Paths that are called off limits: not to be read, unless the setting protects them from being changed alone."""
    owned: list[str] = field(default_factory=list)
    """Paths that are called somebody else's: as if off limits, unless a place around them is protected from being changed alone."""


def is_path(entry: str) -> bool:
    """Tell a path, glob or address from a phrase in plain words.

    Example:
        >>> [is_path(text) for text in ("tests/**", "Makefile", "/a b/c.txt", "git objects after HEAD", "/eval/run.sh --all x.c")]
        [True, True, True, False, False]
    """
    text = entry.strip()
    return " " not in text or (
        text[0] in "/~" and not pattern(r"\s[a-z]{2,}\s|\s[/~]|\sof |\s--?\w|\s\(|\.\w{1,4}\s|\s\S+/$|[;,]\s").search(text)
    )


def is_program(entry: str) -> bool:
    """Tell the bare name of a program from a path.

    Example:
        >>> is_program("pytest"), is_program("check.sh")
        (True, False)
    """
    return pattern(r"^[\w-]+$").search(entry.strip()) is not None


def paths_in(phrase: str) -> list[str]:
    """Return the paths and addresses that plain words name, those of `/proc` apart: they need more than a path to be understood.

    Example:
        >>> paths_in("the image's build layers and set-up scripts (/setup/**)")
        ['/setup/**']
    """
    found, place = [], 0
    named = pattern(_PATH)
    while match := named.search(phrase[place:]):
        text = match.group(1).rstrip(".:")
        if not text.startswith("/proc") and len(text) > 2:
            found.append(text)
        place += match.span(1)[1]
    return found


def subjects(text: str) -> set[str]:
    """Return the subjects that a text speaks of.

    Example:
        >>> sorted(subjects("git objects that are not ancestors of the base commit"))
        ['history']
    """
    small = pattern(
        r"\b(?:inside|in|within|of|to|into) (?:the|your|this|our|its) (?:package|solution)\b|\bprocess under test\b|"
        r"\bsource package\b|\bin-memory\b|\bsnapshot (?:tests?|updates?|files?)\b"
    ).sub("", _without_paths(text.lower()))
    found = {name for name, words in SUBJECTS.items() if pattern(words).search(small)}
    if "tests" in found and not pattern(SUBJECTS["tests"]).search(pattern(_TEST_DATA).sub(" ", small)):
        found.discard("tests")
    return found


_TEST_DATA = (
    r"\btest[- ](?:rows?'?|sets?|data|items?|images?|split|samples?|labels?|part|period|users?|queries|targets?)|"
    r"\S*\btest\w*\.(?:csv|tsv|parquet|jsonl?|npz|npy|feather|arrow|xlsx|txt)\b"
)
"""What a model is to predict is no test of a program."""


def _without_paths(text: str) -> str:
    return " ".join(word for word in text.split() if not _is_place_word(word.strip("`'(),;:.?")))


def _is_place_word(word: str) -> bool:
    return word.startswith(("/", "~", "./", "../")) or (
        "://" not in word
        and pattern(rf"^[\w.*-]+\.(?:{_EXTENSIONS})$|" r"^\.\w[\w-]*/|^[\w.-]+/$|^[\w-]+/[\w./*-]*\*").search(word) is not None
    )


def said(task: str, known: frozenset[str] = frozenset()) -> Said:
    """Read what a task forbids and allows, clause by clause.

    Args:
        task: plain words.
        known: the first components of paths that exist, so that `a/b` among words may be one.

    Example:
        >>> found = said("Fix the bug. You may edit tests/conftest.py. Do not read /golden or look at later commits.")
        >>> sorted(found.closed), found.unread, "runner" in found.open
        (['history'], ['/golden'], True)
        >>> found = said("The server in /srv/db does not start. Leave setup.cfg and ci/ alone; `io` must not be imported in lib/.")
        >>> found.unread, found.unchanged
        ([], ['ci/', 'setup.cfg'])
    """
    found = Said()
    for clause in clauses(task):
        small = clause.text.lower()
        about = subjects(clause.text)
        if about & {"history", "upstream", "solution"} and not pattern(_NETWORK).search(small):
            about.discard("network")  # "online" tells where the other thing is not to be had
        if clause.forbids:
            if pattern(_REFS_CHANGED).search(small):
                about.discard("history")  # they must stay; looking at them is another thing
            _take_refused(clause, about, known, found)
        elif beside := pattern(_ALL_BUT).search(small):
            left = paths_in(clause.text[beside.end() :])
            (found.unread if pattern(_OPENS).search(beside.group(0)) else found.unchanged).extend(left)
        elif pattern(_ALLOWS).search(small):
            found.open |= subjects(pattern(_OWN_COMMITS).sub("", small))
    found.open -= found.closed
    return found


def _take_refused(clause: Clause, about: set[str], known: frozenset[str], found: Said) -> None:
    small = clause.text.lower()
    small = pattern(r"\bwrite-?ups?\b").sub("solutions", pattern(_PERMITTED).sub(" ", _without_paths(small)))
    words = pattern(_NO_READING).sub("", small)
    reads, changes = pattern(_READS).search(words), pattern(_CHANGES).search(small)
    if reads or not changes:
        found.closed |= about
    else:
        if pattern(_REWRITES).search(small):
            about = about - {"history"}
        found.closed |= about & {"history", "upstream", "solution", "labels", "process", "others"}
    part = clause.refused_part()
    only_used = pattern(_USES).search(small) is not None and not pattern(_OPENS).search(words) and not changes
    changed = changes is not None
    paths = [
        path
        for path in paths_in(part)
        if is_plausible(path, known, part) and not _is_place(path, part, only_used=only_used, changed=changed)
    ]
    if (changes or not reads) and not pattern(_OPENS).search(words):
        paths += [
            name
            for name in file_names(part)
            if name not in paths and not _is_place(name, part, only_used=only_used, changed=changed)
        ]
    staying = [path for path in paths if pattern(_STAYS).search(part[part.find(path) + len(path) :].lower())]
    if reads and not changes:
        found.unchanged += staying
        paths = [path for path in paths if path not in staying]
    if reads or not changes:
        target = found.unread if reads and (pattern(_OPENS).search(words) or not pattern(_SHUT).search(words)) else found.shut
        (found.owned if clause.owns and target is found.shut else target).extend(paths)
    found.unchanged += [_as_named(path, part) for path in paths] if changes or not reads else []


_ALL_BUT = (
    r"\b(?:read|open|look at|browse|search|edit|change|write|modify)\b[^.;]{0,40}\b(?:whole|anything|everything|all"
    r"|any file|entire)\b[^.;]{0,40}\b(?:except|but(?: not)?|other than|apart from|excluding|outside(?: of)?)\b"
)
"""What may be read or changed is all but what follows: `read the whole repo except .ci/**`."""
_STAYS = r"^[`'\")]* (?:must |has to |have to )?(?:stays?|remains?)(?:$|[,;.)]| (?:as|there|put|in place|un\w+|intact|fixed)\b)"
"""Behind a path: it may be read, and not be changed."""
_NO_READING = (
    r"\bread[- ]only\b|\breadable\b|\b(?:database|working|fresh|private|local|own|clean|the|a|each) cop(?:y|ies)\b(?: of "
    r"the database)?"
)
"""Words in which reading or copying is no deed."""
_PERMITTED = (
    r"\b(?:may|can|might|should|are free to|is free to|are yours to|is yours to|free to|fine to|ok to|"
    r"allowed to) (?:be )?(?:only |freely |both |also )?"
    r"(?:read|run|looked at|viewed|opened|imported|executed|copied|used|inspected|see|look|use|open|view|copy|import|cited|"
    r"quoted)\b"
    r"(?:(?:,| and| or| and/or)+ (?:be )?(?:read|run|looked at|viewed|opened|imported|executed|copied|used|inspected|see|"
    r"look|use|open|view|copy)\b)*"
)
"""What a clause leaves open beside what it forbids."""
_REWRITES = r"\b(?:delet|remov|rewrit|renam|squash|force|alter|edit|modif|amend|chang|touch|drop|prun|mov)\w*\b"
_USES = r"\b(?:us(?:e|ed|ing)|call\w*|import\w*|link\w*|invok\w*|rel(?:y|ied|ying)|depend\w*|cach\w*|stor\w+)\b"
_OPENS = (
    r"\b(read(?:ing)?|look\w*|open(?:ed|ing)?|see|seen|view\w*|access\w*|inspect\w*|consult\w*|cop(?:y|ied|ying)|cat|peek\w*|"
    r"search\w*|list(?:ed|ing)|snoop\w*|poke|dig|go|visit\w*|explor\w*|brows\w*|alone (?:altogether|entirely|completely))\b"
)
_SHUT = r"\b(off[- ]limits|out of (scope|bounds)|forbidden|prohibited|closed|shut|private|secret|hidden)\b"
_WHOLE = (
    r"\b(anything|everything|nothing|whatever|something|stuff|any (?:of the )?(?:files?|tests?)|(?:files?|tests?|contents?|"
    r"cases|specs?|"
    r"fixtures|things|folder|directory|writ\w*|creat\w*|put|plac\w*|add\w*|sav\w*|stor\w*|leav\w*))\b[^,;]*$"
)


_COUNTED_RUNS = (
    r"^[^.;]{0,60}\b(?:may|can) be (?:called|run|used|asked|executed|started) "
    r"(?:only |just |exactly |at most |no more than |up to )*"
    r"(?:once|twice|thrice|(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|\d+) "
    r"times|a few times|(?:as )?often|freely)\b"
)
"""Behind a path: how often it may be run, which then is nothing to be kept from."""


def _as_named(path: str, words: str) -> str:
    """Return a path with the word before it that says that only what exists is meant: `no changes to existing *.spec.ts`."""
    before = words[: words.find(path)].lower().rstrip("`'\"( ")
    after = words[words.find(path) + len(path) :].lower()
    return f"existing {path}" if pattern(_EXISTING).search(before) or pattern(_ALREADY).search(after) else path


_EXISTING = (
    r"\b(?:existing|present|current|given|old|original)"
    r"(?: (?:tests?|specs?|cases|files|scripts|modules|classes|suites?) (?:in|under|below))?$"
)


_ALREADY = r"^[`'\")]* (?:that|which) (?:exist|(?:are|were|is|was) (?:already |now )?(?:ours|there|here|present|in place))\b"
"""Words behind a path of which only what exists is meant."""


def _is_place(path: str, words: str, *, only_used: bool, changed: bool) -> bool:
    """Tell whether a path only says where the forbidden thing would be done: `must not import numpy in lib/`."""
    before = words[: words.find(path)].lower().rstrip("`'\"( ")
    if pattern(r"\b(?:for|with|by|via|using)(?: the)?$").search(before):
        return True
    after = words[words.find(path) + len(path) :].lower().lstrip("`'\")")
    if not changed and pattern(_COUNTED_RUNS).search(after):
        return True
    if "://" in path and pattern(rf"^ (?:is |are )?{_PERMITTED}").search(after):
        return True
    if not pattern(r"\b(?:in|inside|within|of)(?: the)?$").search(before) or before.endswith("instead of"):
        return False
    return only_used or (changed and not pattern(_OPENS).search(before) and not pattern(_WHOLE).search(before))


_EXTENSIONS = (
    r"py|pyi|ipynb|js|mjs|cjs|ts|mts|tsx|jsx|json|jsonl|toml|ya?ml|ini|cfg|conf|xml|dist|lock|md|rst|txt|csv|tsv|sh|bash|mk|"
    r"go|mod|"
    r"sum|rs|c|h|cc|cpp|hpp|cu|cuh|java|kt|gradle|rb|gemspec|php|lean|v|sql|db|sqlite|cmake|env|lua|pl|proto|html|css|parquet|"
    r"pkl|npz|npy|pt|exs?|hs|cabal|ml|swift|scala|sbt|cs|csproj|jl|r|R|zig|lock|bats|t|tf|patch|img|pdf|in|out|html?"
)
_FILE = (
    rf"(?:^|[\s`'\"(,])((?:[\w*-][\w.*-]*|\.[a-z][\w-]*)\.(?:{_EXTENSIONS})|[Mm]akefile|GNUmakefile|Dockerfile|Gemfile|"
    rf"Rakefile|Procfile|[Jj]ustfile)(?:$|[\s`'\"),;:.?!])"
)


def file_names(words: str) -> list[str]:
    """Return the names of files that stand in plain words without a directory.

    Example:
        >>> file_names("composer.json, Makefile and phpunit.xml.dist (not v1.2) stay; so does `a.py`.")
        ['composer.json', 'Makefile', 'phpunit.xml.dist', 'a.py']
    """
    found, place = [], 0
    named = pattern(_FILE)
    while match := named.search(words[place:]):
        found.append(match.group(1))
        place += match.span(1)[1]
    return found


def is_plausible(path: str, known: frozenset[str], words: str = "") -> bool:
    """Tell whether words with a slash are a path, and not two words for one thing.

    Example:
        >>> [is_plausible(one, frozenset({"src"})) for one in ("/a", "tests/", "src/core", "pass/fail", "encoding/json", "a/b.c")]
        [True, True, True, False, False, True]
    """
    if path.startswith(("/", "~", ".")) or "://" in path or path.endswith("/") or "*" in path:
        return True
    last = path.rpartition("/")[2]
    return "." in last[1:-1] or path.partition("/")[0] in known or f"`{path}`" in words or f"{path.partition('/')[0]}/ " in words
