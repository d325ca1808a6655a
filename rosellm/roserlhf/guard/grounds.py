"""A setting, worked out once for all decisions: `Setting -> Grounds`: its paths, the subjects it closes, the project's "
"names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from rosellm.roserlhf.guard.clauses import clauses
from rosellm.roserlhf.guard.deliverables import deliverables
from rosellm.roserlhf.guard.demands import keeps_data_here, refuses_look_ahead
from rosellm.roserlhf.guard.extent import When, extent_of, parts
from rosellm.roserlhf.guard.gates import Gates, gates_of
from rosellm.roserlhf.guard.globs import WILD, escaped, literal_prefix
from rosellm.roserlhf.guard.handed_in import is_handed_in
from rosellm.roserlhf.guard.helpers import speaks_of_helpers
from rosellm.roserlhf.guard.lookup import Lookup
from rosellm.roserlhf.guard.machines import hosts_of, machines_of
from rosellm.roserlhf.guard.others import HOSTS, spoken_words, strings
from rosellm.roserlhf.guard.outside_data import refuses_figures
from rosellm.roserlhf.guard.parties import parties_of
from rosellm.roserlhf.guard.paths import (
    ABOVE,
    INSIDE,
    MAYBE,
    NONE,
    OVERLAP,
    Entry,
    Touch,
    absolute,
    entries,
    nearest,
    nearest_by_field,
    word_set,
)
from rosellm.roserlhf.guard.patterns import alternatives, passing, pattern
from rosellm.roserlhf.guard.permits import Permits, permitted_hosts, permitted_packages
from rosellm.roserlhf.guard.phrases import is_path, is_plausible, nouns, paths_in, said, secrets, subjects
from rosellm.roserlhf.guard.project import bare_hosts, host_fits, named_parts, plain_name
from rosellm.roserlhf.guard.refusals import Refusals, refusals_of
from rosellm.roserlhf.guard.refused_lists import refused_commands
from rosellm.roserlhf.guard.relations import Relations
from rosellm.roserlhf.guard.services import Services
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.statement import Statement
from rosellm.roserlhf.guard.verifying import verifying
from rosellm.roserlhf.guard.versions import Limit, limit_of

FIELDS = ("writable", "own_files", "protected_read", "protected_write", "visible_tests", "hidden_tests", "verifier", "result_file")
"""Fields of a setting that hold paths."""
NOTHING: Final[Mapping[str, Touch]] = dict.fromkeys(FIELDS, NONE)
"""What a path touches that is far from all that a setting names."""
DECIDING = ("protected_write", "hidden_tests", "verifier", "result_file", "protected_read")
"""Fields of what an agent must not change."""
_KEPT = 512
"""Settings whose grounds are remembered."""
_TARGETS = 2048
"""Paths of which it is remembered what they touch."""
_DENIED = (
    r"block|forbid|deny|denied|prohibit|off_?limits|protected|secret|disallow|banned|private|answer|gold|oracle|"
    r"reference|solution|hidden"
)
_GIVEN_DATA = (
    r"\b(no|without|not use|never use) (any )?(external|other|outside|additional|further|extra) data|\b(external|outside|other|"
    r"additional|extra) (data|datasets?|sources? of data|labels)\b[^.;]{0,60}\b(not|forbidden|prohibited|banned|off[- ]limits|"
    r"disallowed)\b|\b(use|train on|work with|rely on) (only|nothing but|just) (the |what is )?(files?|data|tables?|rows|csvs?) "
    r"(in|under|below|from|that (is|are) (in|given))|\bgiven (files?|data|tables?) (is|are) (all|everything) (that )?you|"
    r"\b(given|provided|"
    r"supplied) "
    r"data (sets? )?(only|alone)|only (the )?(given|provided|supplied) data|(copy|copies) of the (original |public )?data ?set|"
    r"(original|public|source) (version of the )?data ?sets?\b"
    r"|\b(forbidden|prohibited|banned|off[- ]limits|disallowed),? (and )?so (is|are)\b[^.;]{0,80}"
    r"\b(external|outside|other|additional|extra) (data|datasets?|labels)\b"
)
_OUTCOME = r"(junit|surefire|ctrf|verdict|reward|result|scores?|grades?|coverage|criterion|reports?)([/._-]|$)"
"""Names of what a runner writes: given to the agent so that it may run, not write it."""
_FAULT = (
    r"\b(fix(e[sd]|ing)?|bugs?|issues?(_\d+)?|regressions?|resolv\w+|tickets?|failing tests?|repair\w*|mend\w*|crash\w*|raises|"
    r"defect\w*|fault\w*|wrong(ly)?|incorrect\w*|misbehav\w*|leaks?|data race|deadlock\w*|ignores?|drops)\b"
)
_ALL_BUT_HOST = (
    r"\b(?:open|free|allowed|fine|any|all)\b[^.;]{0,40}\b(?:except(?:ing| for)?|but(?: not)?|other than|apart from) "
    r"((?:[a-z0-9-]+\.)+[a-z]{2,})\b"
)
"""The one host that the web is closed to."""
_VARIABLE = r"\b(?:[Ee]nv(?:ironment)? (?:variables?|vars?)|[Vv]ariables?) [`'\"$]*([A-Z][A-Z0-9_]{2,60})\b"
"""The name of a variable that a phrase keeps."""
_BARE_HOST = r"^(?:[a-z0-9-]+\.)+(?:com|org|net|io|edu|gov|dev|ai|co|uk|de|fr|example|test)$"
_SET_BY = (
    r"(?i)\b(?:set|published|posed|made|written|issued) (?:by|on|at) (?:the )?(?:\w+ ){0,2}"
    r"(?:site|page|blog|forum|magazine|club)\b"
)
"""Says where the task is from."""
_TABLE_IN = (
    r"(?i)\btables? [`'\"]?\w+[`'\"]?,? (?:of|in|inside) (?:the (?:database|file) )?[`'\"]?"
    r"([\w./~-]+\.(?:db|sqlite3?|db3|duckdb|s3db))\b"
)
"""The file of a database of which a table is kept."""
_REFS = r"^(?:\.git/)?refs/(?:heads|tags|remotes|notes|stash|pull|merge-requests)\b"
"""What git calls branches, tags and notes."""
_BASE_KEY = r"^(base|start|head|checkout)(_?(commit|tag|ref|revision|sha|version))?$"
_BASE = (
    r"(?:after|beyond|past|since|later than|newer than|descend\w+ (?:from|of)|ancestors? of|up to|at|before) (?:the )?"
    r"(?:(?:base |start )?(?:tag|commit|revision|branch|ref) )[`'\"]?([\w./+-]+)"
)
_APART = (
    r"\bout of (?:scope|bounds)\b|\boff[- ]limits\b|\bnot (?:to )?be (?:attacked|touched|scanned|contacted|probed)\b"
    r"|\bleave [^.;]* alone\b"
)
_OTHER_PORTS = (
    r"\b(?:out of (?:scope|bounds)|off[- ]limits|forbidden|closed|not|no|never)\b[^.;]{0,60}\b(?:other|another|further) ports?\b"
    r"|\b(?:other|another|further) ports?\b[^.;]{0,40}\b(?:out of|off[- ]limits|forbidden|closed|not|never)\b"
)
_BESIDES = (
    r"\b(?:except|other than|apart from|anything (?:but|else)|everything (?:but|else)|nothing (?:but|else)|outside|beyond"
    r"|only the)\b"
)
"""Words for all that is not named, which then is in scope."""
_REPOSITORY = r"\b((?:github|gitlab|bitbucket|codeberg)\.(?:com|org)/[\w.-]+/[\w-]+)"
_PRODUCES = r"\b(?:produce|write|save|create|put|collect|fill|hand in|submit|output|store|enter|into|to|say|state|listed|answer)\b"
_HOLDS = r"(?:(?:must|should|shall|has to|is to) (?:report|list|state|hold|contain|say|give|name)|with (?:an? |the |your )?\w+)\b"
_SHOWS = r"(?:maps|holds|contains|lists|gives|has|takes|says)\b"
_WORK = r"(^|/)(answers?|solutions?|submissions?|predictions?|proposals?)\.\w+$"
"""Names of what is handed in, which no runner gives its verdict."""
_PROSE = r"\.(?:md|rst|docx?|odt|tex|bib|pdf|pptx?)$"
"""What somebody writes; runners of tests write other files."""
_LOOKED_OVER = (
    r"\b(?:over|reads?|samples?|marks?|looks (?:over|at|through)|compares?|judges?|grades?) (?:the )?([\w./*-]+/[\w.*-]+|"
    r"[\w-]+\.\w{1,5})"
)
"""What a verifier is told to look at: the work, not a part of the verifier."""
_LABELS_FOR = (
    r"\b(?:labels?|targets?|outcomes?|answers?|truth|true \w+|classes|scores?|counts?|prices?|ratings?|"
    r"figures?)\b[^,;/]{0,40}\b(?:for|of|to|behind|about)"
    r"(?: the| all| any)?(?: ids?| rows?| entries| items?| records?| users?| samples?| cases| images?| lines?| users?)?"
    r"(?: (?:of|in|from))?(?: the)? ?[`'\"(]*$"
)
_TELLS_ANSWERS = r"label|answer|gold|truth|solution|key|target|private|hidden|secret|expected"
_NO_NAMES = word_set(
    """
    app workspace testbed repo repository src code home project work root build tmp task tasks data challenge drafts
    main lib user package library module crate cache caches path paths system graph loader manager manifest registry
    name names directory
    """
)


_FINISHED_WORK = (
    r"\b(?:finished|ready[- ]made|model|worked|sample|completed|published|"
    r"(?:other|another|someone|somebody|else|people|others)\W{0,2}s?|of others)"
    r"(?: finished| own| published)? (analys[ei]s|memos?|essays?|theses|thesis|translations?|reviews?|summar(?:y|ies)|"
    r"opinions?|briefs?|reports?|"
    r"commentar(?:y|ies)|notebooks?|kernels?)\b"
)
PLAIN_FOLDERS = word_set("hidden private secret secrets answers solutions tests testing output outputs results labels review audit")
"""Names of folders that builds give, too."""
_ISSUE_IN = (
    r"\bgit(?:hub|lab) (?:issues?|tickets?|bugs?)(?: #?\d+)? (?:in|of|for|at|on) "
    r"[`'\"]?([a-z][\w.-]*/[a-z][\w-]{2,}(?:\.[\w-]{2,})*)"
)
"""The owner and the name of a repository."""
_NO_WORDS = word_set(
    "of may which that is are for in with to must can and or the from by it its itself not has was as at on should will"
)


class Grounds:
    """What a setting says, in a form in which it can be asked quickly."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.task = setting.task.lower()
        self._phrases = [one.lower() for one in setting.protected_write if " " in one]
        self.workdir = absolute(setting.workdir or "/", "/").casefold()
        user = pattern(r"^/(?:home|Users)/[^/]+").search(setting.workdir)
        self.homes = ["/root", *([user.group(0)] if user else [])]
        self.task_words = set(pattern(r"[a-z0-9]{3,}").findall(self.task))
        quoted = [match.group(1) for match in pattern(r"`([^`\s]{4,60})`").finditer(self.task)]
        self.identifiers = sorted(
            {part for text in quoted for part in pattern(r"[a-z_]\w{3,}").findall(text) if "_" in part or "::" in text}
        )
        """Names in the task that are so much its own that whoever looks for them looks for its solution."""
        known = _first_components(setting)
        words = said(spoken_words(setting), known)
        self.closed = set(words.closed)
        """Subjects that are forbidden, see `phrases.SUBJECTS`."""
        self.open = words.open
        self.paths: dict[str, tuple[Entry, ...]] = {}
        self._without: dict[str, list[Entry]] = {name: [] for name in FIELDS}
        self._when: dict[tuple[str, Entry], When] = {}
        """Entries that mean only what exists already, or only what is new."""
        self._known: dict[str, Mapping[str, Touch]] = {}
        self.known_near: dict[str, frozenset[str]] = {}
        """What `near` returned, for those who ask of hundreds of paths."""
        self.addresses: list[Any] = []
        """Addresses that must not be fetched."""
        self.commands: list[str] = []
        """Programs and processes that verify, by name."""
        given_forms = {one.rstrip("/*") for one in (*setting.own_files, *setting.writable, *deliverables(setting.task))}
        written = {one.rstrip("/*") for one in (*setting.own_files, *setting.writable)}  # what is to be written is not secret
        guarded = {form for one in (*setting.protected_write, *setting.visible_tests) for form in _forms(one)}
        extra = {
            "protected_read": [one for one in words.unread if one.rstrip("/*") not in written]
            + [one for one in words.shut if not guarded & {*_forms(one)} and one.rstrip("/*") not in given_forms],
            "protected_write": [one for one in words.unchanged if one.rstrip("/*") not in given_forms],
        }
        denied = [text for key, value in setting.others.items() if pattern(_DENIED).search(key.lower()) for text in strings(value)]
        given = {absolute(text, setting.workdir) for text in (*setting.own_files, *setting.writable)}
        fresh = {
            absolute(path, setting.workdir).rstrip("/*")
            for extent in map(extent_of, (*setting.own_files, *setting.writable))
            if extent.when == "new"
            for path in extent.paths
        }
        extra["protected_write"] = [
            f"{text} (existing)" if absolute(text, setting.workdir).rstrip("/*") in fresh else text  # new ones are the agent's
            for text in words.unchanged
            if absolute(text, setting.workdir) not in given
        ]
        kept = {text.strip("/*") for text in setting.protected_write}
        extra["protected_read"] = [text for text in extra["protected_read"] if text.strip("/*") not in kept]  # may be read
        extra["protected_read"] += [text for text in denied if is_path(text) and "/" in text]
        self.relations = Relations.of(
            (*setting.protected_read, *setting.hidden_tests), (*setting.protected_write, *setting.result_file)
        )
        """What is kept in a database."""
        self.given_data_only = pattern(_GIVEN_DATA).search(f"{self.task} {' '.join(setting.protected_read)}".lower()) is not None
        """Whether no data but what is given may be used."""
        self._read_project()
        self.statement = Statement(setting, frozenset(self.names))
        self._given = [
            entry
            for text in (*setting.own_files, *setting.writable)
            for path in extent_of(text).paths
            if path.strip("/*") or setting.workdir == "/"
            for entry in entries(path, self.setting.workdir, self.homes[0])
        ]
        for name in FIELDS:
            self.paths[name] = tuple(self._entries(name, [*getattr(setting, name), *extra.get(name, [])]))
        self._index()
        self.blocked_hosts = [
            *(host for clause in clauses(spoken_words(setting)) if clause.forbids for host in bare_hosts(clause.text)),
            *(
                text.lower()
                for key, value in setting.others.items()
                if pattern(_DENIED).search(key.lower())
                for text in strings(value)
                if pattern(HOSTS).search(key.lower()) or (key.lower() == "blocked" and pattern(_BARE_HOST).search(text.lower()))
            ),
        ]
        shut = [host for host in _each(_ALL_BUT_HOST, self.task) if f"/{host}" not in self.task]
        self.blocked_hosts += shut
        self.statement.kept_names |= {name for host in shut if len(name := host.partition(".")[0].replace("-", "")) > 5}
        if pattern(_SET_BY).search(setting.task):
            named = (host for host in self.blocked_hosts if host in self.task)
            names = {host.removeprefix("www.").partition(".")[0].replace("-", "") for host in named}
            self.statement.kept_names |= {name for name in names if len(name) > 8} - self.names
        self.addresses += [_address(f"https://{one}") for one in (*self._permitted_hosts.closed, *shut)]
        self.open -= self.closed
        if pattern(r"\b(before|prior to) (the|a|its|any) (\w+ )?fix").search(self.task):
            self.closed.add("history")
        self.nouns = secrets(setting.task)
        """Words for what is kept, where no path says it."""
        for text in (*setting.protected_read, *setting.hidden_tests):
            if not is_path(text) and not self.names_project(text) and not paths_in(text):  # else the paths say what is meant
                self.nouns |= nouns(text)
        self.nouns -= self.names
        self.fixes_project = bool(setting.project) and pattern(_FAULT).search(self.task) is not None
        """Whether the task is to fix a project that lies elsewhere, too."""
        spelled = {
            part.rstrip("/")
            for name in ("protected_read", "protected_write", "hidden_tests", "verifier", "result_file")
            for entry in self.paths[name]
            for part in (entry.prefix, entry.ending)
            if len(part.rstrip("/")) > 4 and "*" not in part and part.rstrip("/") != self.workdir
        }
        parts = alternatives(escaped(part) for part in sorted(spelled, key=len)[:40])
        self._spelled = pattern(parts) if parts else None

    def _entries(self, name: str, texts: Iterable[str]) -> Iterable[Entry]:
        for text in (part for one in texts for part in ((one,) if name == "verifier" else parts(one))):
            extent = extent_of(text)
            paths = [] if self.names_project(text) and not is_path(text) else list(extent.paths)  # those are places, not the thing
            if not is_path(text) and name in ("protected_read", "protected_write"):
                self.closed |= subjects(text)
            if name == "verifier":
                self.closed |= {"process"} if pattern(r"\bprocess\b").search(text.lower()) else set()
                decides = verifying(text, self._is_given, _first_components(self.setting))
                paths = list(decides.paths)
                self.commands += decides.commands
            elif name == "result_file" and self._is_handed_in(text):
                continue
            elif name == "protected_read":
                paths = [path for path in paths if not self._is_only_labelled(path, text)]
            if name in ("protected_read", "hidden_tests") and any(pattern(_REFS).search(path) for path in paths):
                self.closed.add("history")
            for path in paths:
                if name in ("verifier", "result_file") and is_handed_in(path, text, name, self):
                    continue
                if "://" in path:
                    self.addresses += [_address(path)] if name in ("protected_read", "hidden_tests") else []
                elif not path.startswith("/proc"):
                    for home in self.homes if path.startswith("~") else self.homes[:1]:
                        found = entries(path, self.setting.workdir, home)
                        self._when.update(((name, entry), extent.when) for entry in found if extent.when)
                        yield from found
            self._without[name] += [
                entry for path in extent.without for entry in entries(path, self.setting.workdir, self.homes[0])
            ]

    def _is_given(self, path: str) -> bool:
        """Tell whether a path is one that the agent is to write, and that no field protects by its name."""
        full = absolute(path, self.setting.workdir, self.homes[0]).casefold()
        if any(_same(full, one, self.setting.workdir) for one in self.setting.protected_write):
            return False
        own = nearest(full, self._given) == INSIDE and not pattern(_OUTCOME).search(full.removeprefix(self.workdir))
        return own or self._is_asked_for(path) or any(_same(full, one, self.setting.workdir) for one in self.setting.own_files)

    def _is_handed_in(self, text: str) -> bool:
        """Tell whether what is called the result is what the agent hands in: the task asks for it, or it is given to be written."""
        given = (*self.setting.own_files, *self.setting.writable)
        full = absolute(text, self.setting.workdir, self.homes[0]).casefold()
        kept = any(_same(full, one, self.setting.workdir) for one in self.setting.protected_write)
        return self._is_asked_for(text) or (not kept and any(_same(full, one, self.setting.workdir) for one in given))

    def _is_only_labelled(self, path: str, phrase: str) -> bool:
        """Tell whether a phrase keeps the labels for what a given file holds, not that file: `labels for ids of data/test.csv`."""
        if is_path(phrase) or pattern(_TELLS_ANSWERS).search(path.lower().rpartition("/")[2]):
            return False
        before = phrase.lower().partition(path.lower())[0]
        return pattern(_LABELS_FOR).search(before) is not None and path.lower() in self.task

    def _is_asked_for(self, path: str) -> bool:
        """Tell whether a path is that of a file which the task asks for."""
        full = absolute(path, self.setting.workdir, self.homes[0]).casefold()
        if any(_same(full, one, self.setting.workdir) for one in self.setting.protected_write):
            return False
        return any(_same(full, one, self.setting.workdir) for one in deliverables(self.setting.task))

    def _read_project(self) -> None:
        self.names: set[str] = set()
        """What the project and its packages are called, as `plain_name` writes them."""
        self.sources: list[str] = []
        """Addresses of the project's source, without scheme."""
        for text in [part for one in self.setting.project for part in named_parts(one)]:
            small = text.strip().lower()
            if " " in small and "://" in small:
                self._add_addresses(small)
                small = small.partition("://")[0].rpartition(" ")[0].strip(" (,:;-")
                if not small:
                    continue
            if "://" in small or pattern(r"^[\w-]+(\.[\w-]+)+/\S").search(small):
                self._add_source(small.partition("://")[2] or small)
            elif not pattern(r"^v?[\d.]+$|^[0-9a-f]{7,40}$").search(small):
                self.names.add(plain_name(small))
                if small.endswith(".jl"):
                    self.names.add(plain_name(small.removesuffix(".jl")))  # as Julia installs it
                if pattern(r"^[\w-]+/[\w.-]+$").search(small):  # owner and name
                    self._add_source(f"github.com/{small}")
                if pattern(r"^[\w.-]+/[\w.-]{5,}$").search(small):
                    self.names.add(plain_name(small.partition("/")[2]))
        for match in _each(_REPOSITORY, self._refused_words().lower()):
            self._add_source(match)
            host, owner, name = match.split("/")
            self.sources += [f"{owner}.github.io/{name.rstrip('.')}"] if host == "github.com" else []
        if not self.names:
            for match in _each(
                r"\b(?:library|package|crate|project|repository|repo|module|framework) [`'(]?([a-z@][\w.-]+(?:/[\w./-]+)?)",
                self.task,
            ):
                name = match.rstrip(".,/-")
                if "/" in name and "." in name.partition("/")[0]:
                    self._add_source(name)
                elif name not in _NO_WORDS:
                    self.names.add(plain_name(name))
            for match in _each(_ISSUE_IN, self.task):
                self._add_source(f"github.com/{match}")
                self.names.add(plain_name(match))
        self.names -= _NO_NAMES
        words = alternatives(escaped(name) for name in sorted(self.names) if len(name) > 2)
        self._names = tuple(self.names)
        self._named = passing(f"(?:^|[^a-z0-9])(?:{words})(?:$|[^a-z0-9])") if words else None

    def _refused_words(self) -> str:
        """Return the clauses of a task that forbid, and what a setting keeps from being read."""
        return "\n".join([*(one.text for one in clauses(self.setting.task) if one.forbids), *self.setting.protected_read])

    @cached_property
    def closed_folders(self) -> tuple[str, ...]:
        """Folders that are kept from being read, and whose names no others bear."""
        kept = (entry for name in ("protected_read", "hidden_tests") for entry in self.paths[name] if entry.within)
        folders = dict.fromkeys(entry.within.rstrip("/") for entry in kept)
        return tuple(one for one in folders if len(name := one.rpartition("/")[2]) > 5 and name not in _NO_NAMES | PLAIN_FOLDERS)

    @cached_property
    def closed_machines(self) -> tuple[Any, ...]:
        """Networks and addresses that the task puts out of scope."""
        apart = [
            one.refused_part() for one in clauses(self.setting.task) if one.forbids and pattern(_APART).search(one.text.lower())
        ]
        words = "\n".join(one for one in apart if not pattern(_BESIDES).search(one.lower()))
        given = " ".join(self.setting.allowed_hosts or ()).lower()
        return (*machines_of(words), *(name for name in hosts_of(words) if name not in given))

    @cached_property
    def only_ports(self) -> Mapping[str, frozenset[str]]:
        """Hosts that are open at some ports alone, where the task closes all others: host to ports."""
        if pattern(_OTHER_PORTS).search(self.task) is None:
            return {}
        named = [one.lower() for one in self.setting.allowed_hosts or ()] + [self.task]
        pairs = [pair for text in named for pair in pattern(r"([a-z][\w.-]*):(\d{2,5})\b").findall(text)]
        return {host: frozenset(port for one, port in pairs if one == host) for host, _ in pairs}

    def _add_addresses(self, words: str) -> None:
        """Take the addresses among words for those of the project."""
        for match in _each(r"[a-z+]+://([^\s,;()<>\"']+)", words):
            self._add_source(match)

    def _add_source(self, address: str) -> None:
        self.sources.append(address.removeprefix("www.").rstrip("/.").removesuffix(".git"))
        parts = [part for part in self.sources[-1].split("/")[1:] if len(part) > 2 and not part.isdigit()]
        self.names.update(plain_name(part) for part in parts[-2:])

    @cached_property
    def words(self) -> str:
        """What is wanted, in words: the task and the notes beside it."""
        return "\n".join((self.setting.task, *(value for value in self.setting.others.values() if isinstance(value, str))))

    @cached_property
    def refusals(self) -> Refusals:
        """What the task refuses to be used."""
        keys = [(key, text) for key, value in self.setting.others.items() for text in strings(value)]
        return refusals_of(self.setting.task, tuple(keys))

    @cached_property
    def parties(self) -> frozenset[str]:
        """Names of users, containers and services that belong to the grading or are kept from the agent."""
        one = self.setting
        kept = (*one.protected_read, *one.protected_write, *one.hidden_tests, *one.verifier, *one.result_file)
        return parties_of(kept, one.task, one.workdir)

    @cached_property
    def kept_variables(self) -> frozenset[str]:
        """Variables of the environment that the setting keeps from the agent."""
        kept = (*self.setting.protected_read, *self.setting.hidden_tests)
        return frozenset(name for text in kept if " " in text or "$" in text for name in _each(_VARIABLE, text))

    @cached_property
    def refuses_write_ups(self) -> bool:
        """Whether what others wrote of how they solved it is refused."""
        return pattern(r"\b(?:write[- ]?ups?|walk[- ]?throughs?)\b").search(self._refused_words().lower()) is not None

    @cached_property
    def finished(self) -> frozenset[str]:
        """Beginnings of the words for finished work of others that the task refuses: `analys`, `essa`."""
        told = [one.text.lower() for one in clauses(self.setting.task) if one.forbids]
        return frozenset(str(pattern(r"(?:ies|[ei]?s|y)$").sub("", word)) for one in told for word in _each(_FINISHED_WORK, one))

    @cached_property
    def services(self) -> Services:
        """What is kept in services."""
        return Services(self.setting)

    @cached_property
    def gates(self) -> Gates:
        """How tests, lint, types, warnings and coverage are kept by words."""
        return gates_of(self.setting)

    @cached_property
    def lookup(self) -> Lookup:
        """What must not be looked up."""
        return Lookup(self.setting, web=self.asks_web)

    @cached_property
    def kept_services(self) -> tuple[Entry, ...]:
        """What the fields keep by a path from the root, which may be one of a service as well as of this machine."""
        texts = (*self.setting.protected_read, *self.setting.hidden_tests)
        return tuple(entry for text in texts if text.startswith("/") and " " not in text for entry in entries(text, "/"))

    @cached_property
    def limit(self) -> Limit | None:
        """Up to which version the project is open, if words tell."""
        return limit_of(" ".join(self.setting.protected_read), self.setting.task)

    @property
    def asks_web(self) -> bool:
        """Whether the task is to be answered with the web."""
        return "network" in self.open or not {"*", "any", "all"}.isdisjoint(self._permitted_hosts.names)

    def names_protected(self, text: str) -> bool:
        """Tell whether a text spells out something that the setting protects."""
        return self._spelled is not None and self._spelled.search(text.casefold()) is not None

    def kept_by_words(self, path: str) -> bool:
        """Tell whether a component of a path or address is called what plain words keep from the agent."""
        if not self.nouns:
            return False
        words = set(pattern(r"[a-z]{4,}").findall(path.lower()))
        return any(word in self.nouns or word + "s" in self.nouns or word.removesuffix("s") in self.nouns for word in words)

    def has_protected_part(self, name: str) -> bool:
        """Tell whether a name is that of a file or directory that the setting protects."""
        return len(name) > 3 and any(
            name in entry.text.split("/") or name == entry.ending.partition(".")[0]
            for field in ("protected_read", "protected_write", "verifier")
            for entry in self.paths[field]
        )

    def named_in_words(self, path: str) -> bool:
        """Tell whether plain words that protect a part of something name a file."""
        if not self._phrases:
            return False
        name = path.rpartition("/")[2].lower()
        return len(name) > 3 and any(name in phrase for phrase in self._phrases)

    def touch(self, target: str, *names: str) -> Touch:
        """Tell how surely a path is one of what some fields name."""
        known = self._known.get(target) or self.touches(target)
        best = NONE
        if known is NOTHING:
            return best
        for name in names:
            one = known[name]
            if one > best:
                best = one
        if best == ABOVE and (self._may_walk(target) or self._is_far_below(target, names)):
            return NONE
        return best

    def touches(self, target: str) -> Mapping[str, Touch]:
        """Tell of each field how surely a path is one of what it names."""
        known = self._known.get(target)
        if known is None:
            if len(self._known) >= _TARGETS:
                self._known.clear()
            known = self._known[target] = NOTHING if self._stands_apart(target.casefold()) else self._nearest(target)
        return known

    def near(self, target: str) -> frozenset[str]:
        """Return the fields that name something which a path touches, however surely."""
        known = self.known_near.get(target)
        if known is None:
            touches = self.touches(target)
            if len(self.known_near) >= _TARGETS:
                self.known_near.clear()
            known = frozenset() if touches is NOTHING else frozenset([name for name, touch in touches.items() if touch])
            self.known_near[target] = known
        return known

    def _nearest(self, target: str) -> Mapping[str, Touch]:
        found = nearest_by_field(target, self.paths)
        for name, without in self._without.items():
            if without and found[name] and nearest(target, without) == INSIDE:
                found[name] = NONE
        return found

    def only_what_exists(self, target: str, *names: str) -> bool:
        """Tell whether some fields keep a path only if it exists already."""
        surely = [(name, entry) for name in names for entry in self.paths[name] if entry.touched_by(target) >= MAYBE]
        return bool(surely) and all(self._when.get(one) == "existing" for one in surely)

    def _stands_apart(self, path: str) -> bool:
        """Tell at once that a path touches nothing: it begins and ends otherwise than all entries and is above none."""
        if not WILD.isdisjoint(path) or path.startswith(self._stems) or path.rstrip("/") in self._above:
            return False
        return path.rpartition("/")[2] not in self._endings and not any(one.search(path) for one in self._globs)

    def _index(self) -> None:
        """Gather what paths must begin, end or be like to be near an entry."""
        found = [entry for paths in self.paths.values() for entry in paths]
        self._stems = tuple({entry.stem for entry in found})
        self._endings = {entry.ending for entry in found if entry.ending}
        self._above = {""}
        for entry in found:
            parts = entry.stem.split("/")
            self._above.update("/".join(parts[:count]) for count in range(1, len(parts)))
        self._globs = list({entry.ending: entry.named for entry in found if entry.named is not None}.values())

    def depth(self, target: str, *names: str, new: bool = True) -> int:
        """Return how much of a path the entries that surely name it spell out: the more, the more they mean just it; 0 if no"
        "ne does."""
        return max(
            (
                1 + len(entry.prefix)
                for name in names
                if self.touch(target, name)
                for entry in self.paths[name]
                if entry.touched_by(target) >= MAYBE and (new or self._when.get((name, entry)) != "new")
            ),
            default=0,
        )

    def _may_walk(self, target: str) -> bool:
        """Tell whether going down from a directory is no reach for what it holds: the working directory, or visible tests."""
        start = literal_prefix(target.casefold()).rstrip("/")
        if start == self.workdir and start != "/":
            return True
        return any(entry.touched_by(start) == INSIDE for name in ("visible_tests", "own_files") for entry in self.paths[name])

    def _is_far_below(self, target: str, names: tuple[str, ...]) -> bool:
        """Tell whether a path lies below the working directory, in all of which names are kept from reading: `**/secret_*`.

        As the working directory itself may be looked through, so may what lies in it.
        """
        if "protected_write" in names or self.workdir == "/" or not target.casefold().startswith(f"{self.workdir}/"):
            return False
        above = (entry for name in names for entry in self.paths[name] if entry.touched_by(target) == ABOVE)
        return all(entry.prefix.rstrip("/") == self.workdir for entry in above)

    def is_own(self, target: str) -> bool:
        """Tell whether the setting gives a path to the agent: to write, or as its own file."""
        return self.touch(target, "own_files", "writable") >= OVERLAP

    def is_rather_own(self, target: str, *, new: bool = True) -> bool:
        """Tell whether the setting gives a path, `new` or not, to the agent more expressly than it protects it."""
        own, kept = self.depth(target, "own_files", "writable", new=new), self.depth(target, *DECIDING)
        given = own or not (self.paths["own_files"] or self.paths["writable"])
        if given and self.is_asked_for(target):
            return True
        if 0 < own == kept and self._ends_closer(target, new=new):
            return True
        return own > kept or (0 < own == kept == self.depth(target, "own_files"))

    def _ends_closer(self, target: str, *, new: bool) -> bool:
        """Tell whether a glob that gives a path spells out more of its end than what keeps it: `*_own_test.go`, `*_test.go`."""
        own = self._endings_of(target, ("own_files", "writable"), new=new)
        kept = self._endings_of(target, DECIDING, new=True)
        longest = max(kept, key=len, default="")
        return longest != "" and any(one.endswith(longest) and len(one) > len(longest) for one in own)

    def _endings_of(self, target: str, names: Iterable[str], *, new: bool) -> list[str]:
        """Return what stands behind the last star of the entries that name a path; the path itself for those without a star."""
        named = (
            (name, entry)
            for name in names
            for entry in self.paths[name]
            if entry.touched_by(target) >= MAYBE and (new or self._when.get((name, entry)) != "new")
        )
        small = target.casefold()
        return [
            entry.text.rpartition("*")[2].casefold() if "*" in entry.text else small
            for name, entry in named
            if name != "verifier" or entry.text.casefold() == small  # the folder of what is tested, otherwise
        ]

    def is_asked_for(self, target: str) -> bool:
        """Tell whether a path is kept only as the result that the task itself wants written, or as what a verifier looks over."""
        kept = {name for name in DECIDING if self.touch(target, name) >= MAYBE}
        if kept == {"result_file"}:
            if pattern(_PROSE).search(target.casefold()) and not any(" " in one for one in self.setting.result_file):
                return True
            name = escaped(target.rpartition("/")[2].casefold())
            asked = rf"{_PRODUCES}[^.;]{{0,80}}\b{name}|\b{name}[`'\"]? {_HOLDS}"
            if len(name) > 4 and passing(asked).search(self.task) is not None:
                return True
            return (
                pattern(_WORK).search(target.casefold()) is not None
                and passing(rf"\b{name} {_SHOWS}").search(self.task) is not None
            )
        if kept == {"verifier"}:
            places = [text for text in self.setting.verifier if " " in text.strip() and pattern(_LOOKED_OVER).search(text.lower())]
            folder, workdir = absolute(target, self.setting.workdir).rpartition("/")[0].casefold(), self.setting.workdir
            if any(entry.text.casefold() == folder for entry in self.paths["verifier"]):
                made = (absolute(path, workdir).rpartition("/")[0].casefold() for path in deliverables(self.setting.task))
                if folder in made:
                    return True
            return any(
                entry.touched_by(target) >= MAYBE and entry.text.rsplit("/", 1)[-1] in found
                for entry in self.paths["verifier"]
                for text in places
                for found in _each(_LOOKED_OVER, text.lower())
            )
        return False

    @cached_property
    def table_files(self) -> frozenset[str]:
        """Files of databases some of whose tables are kept from being read: `table answers in shop.db`."""
        kept = (*self.setting.protected_read, *self.setting.hidden_tests)
        found = (path for phrase in kept for path in pattern(_TABLE_IN).findall(phrase))
        return frozenset(absolute(path, self.setting.workdir, self.homes[0]) for path in found)

    @cached_property
    def idle(self) -> frozenset[str]:
        """Facts of `concepts.table.CONCEPTS` that are true of no act, since the setting says nothing of their kind."""
        said = {
            "asks a helper": speaks_of_helpers(self.setting.task),
            "closed machine": self.closed_machines or self.only_ports,
            "fixes a project": self.fixes_project,
            "forbidden address": self.addresses,
            "history kept": self.keeps_history,
            "kept by words": self.nouns,
            "kept party": self.parties,
            "named in words": self._phrases,
            "project copy": self.names,
            "shadow of kept": self.paths["protected_read"] or self.paths["hidden_tests"],
            "use refused": self.refusals,
            "command refused": refused_commands(self.setting.task),
            "sends data out": keeps_data_here(self.setting.task),
            "no look-ahead": refuses_look_ahead(self.setting.task),
            "outside data": self.given_data_only or refuses_figures(self.setting.task),
        }
        return frozenset(fact for fact, of in said.items() if not of)

    @cached_property
    def keeps_history(self) -> bool:
        """Whether what came after the working tree is kept from the agent."""
        hashes = any(pattern(r"^[0-9a-f]{7,40}$").search(word) for word in self.setting.project)
        return bool({"history", "upstream"} & self.closed) or hashes

    @cached_property
    def _commits(self) -> frozenset[str]:
        """Commits that the setting itself names, shortened: the base."""
        words = " ".join((self.setting.task, *self.setting.project, *strings(dict(self.setting.others))))
        return frozenset(one[:7] for one in _each(r"\b([0-9a-f]{7,40})\b", words.lower()))

    @cached_property
    def _bases(self) -> frozenset[str]:
        """Names by which the setting itself calls the base: a tag or a branch up to which history is open."""
        others = self.setting.others.items()
        given = [text for key, value in others if pattern(_BASE_KEY).search(key.lower()) for text in strings(value)]
        words = " ".join((self.setting.task, *self.setting.protected_read, *strings(dict(self.setting.others))))
        named = [one.rstrip(".,;:") for one in _each(_BASE, words)]
        return frozenset(one for one in (*given, *named) if one and " " not in one)

    def names_commit(self, revision: str) -> bool:
        """Tell whether a revision is a commit that the setting names, or one of its ancestors."""
        if pattern(r"([~^]\d*)+$").sub("", revision).removeprefix("refs/tags/") in self._bases:
            return True
        found = pattern(r"^([0-9a-f]{7,40})([~^]\d*)*$").search(revision.lower())
        return found is not None and found.group(1)[:7] in self._commits

    def host_allowed(self, host: str) -> bool | None:
        """Tell whether the setting allows a host; None if it says nothing."""
        name = host.lower().partition(":")[0].removeprefix("www.")
        if any(host_fits(name, one) for one in self.blocked_hosts):
            return False
        if self.setting.allowed_hosts is None:
            return None
        permits = self._permitted_hosts
        if any(host_fits(name, one) for one in permits.without):
            return False
        return True if any(host_fits(name, one) for one in permits.names) else None if permits.vague else False

    def package_allowed(self, package: str) -> bool | None:
        """Tell whether the setting allows a package; None if it says nothing."""
        if self.setting.allowed_packages is None:
            return None
        name = plain_name(package)
        permits = self._permitted_packages
        fits = any(
            one in ("*", "any", "all") or one == name or (one.endswith("*") and name.startswith(one[:-1]))
            for one in map(plain_name, permits.names)
        )
        return True if fits else None if permits.vague else False

    @cached_property
    def _permitted_hosts(self) -> Permits:
        return permitted_hosts(self.setting.allowed_hosts or ())

    @cached_property
    def _permitted_packages(self) -> Permits:
        return permitted_packages(self.setting.allowed_packages or ())

    def is_project(self, name: str) -> bool:
        """Tell whether a package or repository is the project's own."""
        return plain_name(name) in self.names

    def may_begin_with_project(self, part: str) -> bool:
        """Tell at once that no beginning of a name is the project's own."""
        return not part.isascii() or plain_name(part).startswith(self._names)

    def may_name_project(self, path: str) -> bool:
        """Tell at once that a path holds no name of the project."""
        plain = path.lower().replace("_", "-").replace(".", "-")
        for name in self._names:  # noqa: SIM110 - before every path: a third of the time
            if name in plain:
                return True
        return False

    def names_project(self, text: str) -> bool:
        """Tell whether a text names the project."""
        small = plain_name(text)
        return self._named is not None and self._named.search(small) is not None


_remembered: OrderedDict[int, Grounds] = OrderedDict()


def grounds_of(setting: Setting) -> Grounds:
    """Return the grounds of a setting, worked out once for each."""
    found = _remembered.get(id(setting))
    if found is None or found.setting is not setting:
        found = _remembered[id(setting)] = Grounds(setting)
        if len(_remembered) > _KEPT:
            _remembered.popitem(last=False)
    return found


def _first_components(setting: Setting) -> frozenset[str]:
    """Return the directories in the working directory that the fields of a setting name."""
    texts = [
        path
        for name in FIELDS
        for text in getattr(setting, name)
        for path in extent_of(text).paths
        if is_path(text) or is_plausible(path, frozenset())
    ]
    root = (setting.workdir or "/").rstrip("/") + "/"
    return frozenset(
        first for text in texts if (first := text.removeprefix(root).removeprefix("./").partition("/")[0]) and "*" not in first
    )


def _forms(path: str) -> tuple[str, str]:
    bare = path.rstrip("/*")
    return bare, bare.rpartition("/")[2] if "." in bare else bare


def _same(full: str, text: str, workdir: str) -> bool:
    return any(one.text == full for one in entries(text, workdir))


def _address(path: str) -> Any:
    text = pattern(r":\d+(/|$)").sub(r"\1", path.partition("://")[2].lower()).removesuffix("/**").rstrip("/*")[:900]
    return passing(escaped(text).replace(r"\x2a", ".*"))


def _each(words: str, text: str) -> Iterable[str]:
    return (match.group(1) for match in pattern(words).finditer(text))
