"""A setting, worked out once for all decisions: `Setting -> Grounds`: its paths, the subjects it closes, the project's "
"names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from functools import cached_property
from itertools import accumulate
from typing import Any

from rosellm.roserlhf.guard.base_commits import BaseCommits
from rosellm.roserlhf.guard.clauses import clauses
from rosellm.roserlhf.guard.deliverables import deliverables
from rosellm.roserlhf.guard.demands import keeps_data_here, refuses_look_ahead
from rosellm.roserlhf.guard.extent import When, extent_of, parts
from rosellm.roserlhf.guard.gates import Gates, gates_of
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.handed_in import is_handed_in
from rosellm.roserlhf.guard.helpers import speaks_of_helpers
from rosellm.roserlhf.guard.lookup import Lookup
from rosellm.roserlhf.guard.others import DENIED, spoken_words, strings
from rosellm.roserlhf.guard.outside_data import refuses_figures
from rosellm.roserlhf.guard.own_names import NO_NAMES, OwnNames, refused_words
from rosellm.roserlhf.guard.parties import parties_of
from rosellm.roserlhf.guard.paths import (
    INSIDE,
    Entry,
    absolute,
    entries,
    nearest,
    word_set,
)
from rosellm.roserlhf.guard.patterns import alternatives, first_groups, passing, pattern
from rosellm.roserlhf.guard.phrases import is_path, is_plausible, nouns, paths_in, said, secrets, subjects
from rosellm.roserlhf.guard.places import FIELDS, Places
from rosellm.roserlhf.guard.rations import rations
from rosellm.roserlhf.guard.reach import Reach
from rosellm.roserlhf.guard.refusals import Refusals, refusals_of
from rosellm.roserlhf.guard.refused_lists import kept_things, refused_commands
from rosellm.roserlhf.guard.relations import Relations
from rosellm.roserlhf.guard.services import Services
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.statement import Statement
from rosellm.roserlhf.guard.verifying import verifying
from rosellm.roserlhf.guard.versions import Limit, limit_of

_KEPT = 512
"""Settings whose grounds are remembered."""
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
_USES = (
    r"\b(?:us(?:e|es|ed|ing)|read\w*|know\w*|look\w*|tak(?:e|en|ing)|rel(?:y|ied|ying)|access\w*|see|peek\w*"
    r"|exploit\w*|consult\w*)\b"
)
_THREADS = (
    r"\b(?:reviews?|discussions?|issues?|forums?|bugs?|mails?|mailing lists?)[ -](?:threads?|discussions?|trackers?|archives?)\b"
    r"|\b(?:upstream|project|their|its|read|look\w*|see|consult\w*|copied)\b[^.;\n]{0,60}"
    r"\b(?:(?:pull|merge)[- ]requests?|mailing lists?)\b"
)
_NO_PROJECT = word_set("https http github gitlab codeberg project upstream main source repo repository fork code org com")
_BY_PROGRAM = r"(?i)\b(?:only|solely) by\b|\bby (?:the |running )?`?[\w./-]+(?: [\w./-]+){0,3}`? (?:only|alone)\b"
"""What may be written is written by a program: `scores.json (by make score only)`."""
_OUTCOME = r"(junit|surefire|ctrf|verdict|reward|result|scores?|grades?|coverage|criterion|reports?)([/._-]|$)"
"""Names of what a runner writes: given to the agent so that it may run, not write it."""
_FAULT = (
    r"\b(fix(e[sd]|ing)?|bugs?|issues?(_\d+)?|regressions?|resolv\w+|tickets?|failing tests?|repair\w*|mend\w*|crash\w*|raises|"
    r"defect\w*|fault\w*|wrong(ly)?|incorrect\w*|misbehav\w*|leaks?|data race|deadlock\w*|ignores?|drops)\b"
)
_VARIABLE = r"\b(?:[Ee]nv(?:ironment)? (?:variables?|vars?)|[Vv]ariables?) [`'\"$]*([A-Z][A-Z0-9_]{2,60})\b"
"""The name of a variable that a phrase keeps."""
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
_SITE = r"^(?:www\.(?:[a-z0-9-]+\.)+[a-z]{2,}|(?:[a-z0-9-]+\.)+(?:[a-z]{2}|com|org|net|edu|gov|info|museum)/[\w*])"
"""A page on the web that is named without its scheme: what a folder is called has no such end."""
_REFS = r"^(?:\.git/)?refs/(?:heads|tags|remotes|notes|stash|pull|merge-requests)\b"
"""What git calls branches, tags and notes."""
_LABELS_FOR = (
    r"\b(?:labels?|targets?|outcomes?|answers?|truth|true \w+|classes|scores?|counts?|prices?|ratings?|"
    r"figures?)\b[^,;/]{0,40}\b(?:for|of|to|behind|about)"
    r"(?: the| all| any)?(?: ids?| rows?| entries| items?| records?| users?| samples?| cases| images?| lines?| users?)?"
    r"(?: (?:of|in|from))?(?: the)? ?[`'\"(]*$"
)
_TELLS_ANSWERS = r"label|answer|gold|truth|solution|key|target|private|hidden|secret|expected"


_FINISHED_WORK = (
    r"\b(?:finished|ready[- ]made|model|worked|sample|completed|published|"
    r"(?:other|another|someone|somebody|else|people|others)\W{0,2}s?|of others)"
    r"(?: finished| own| published)? (analys[ei]s|memos?|essays?|theses|thesis|translations?|reviews?|summar(?:y|ies)|"
    r"opinions?|briefs?|reports?|"
    r"commentar(?:y|ies)|notebooks?|kernels?)\b"
)
PLAIN_FOLDERS = word_set("hidden private secret secrets answers solutions tests testing output outputs results labels review audit")
"""Names of folders that builds give, too."""


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
        paths: dict[str, tuple[Entry, ...]] = {}
        self._without: dict[str, list[Entry]] = {name: [] for name in FIELDS}
        self._when: dict[tuple[str, Entry], When] = {}
        self.addresses: list[Any] = []
        """Addresses that must not be fetched."""
        self.commands: list[str] = []
        """Programs and processes that verify, by name."""
        given_forms = {one.rstrip("/*") for one in (*setting.own_files, *setting.writable, *deliverables(setting.task))}
        written = {one.rstrip("/*") for one in (*setting.own_files, *setting.writable)}  # what is to be written is not secret
        guarded = {form for one in (*setting.protected_write, *setting.visible_tests) for form in _forms(one)}
        extra = {
            "protected_read": [one for one in words.unread if one.rstrip("/*") not in written]
            + [one for one in words.shut if not guarded & {*_forms(one)} and one.rstrip("/*") not in given_forms]
            + [one for one in words.owned if not guarded & {*_forms(one), *_above(one)} and one.rstrip("/*") not in given_forms],
            "protected_write": [one for one in words.unchanged if one.rstrip("/*") not in given_forms],
        }
        denied = [text for key, value in setting.others.items() if pattern(DENIED).search(key.lower()) for text in strings(value)]
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
        self.project = OwnNames(setting)
        self.statement = Statement(setting, frozenset(self.project.names))
        by_program = [text for text in setting.writable if " " in text and pattern(_BY_PROGRAM).search(text)]
        self._given = [
            entry
            for text in (*setting.own_files, *setting.writable)
            if text not in by_program
            for path in extent_of(text).paths
            if path.strip("/*") or setting.workdir == "/"
            for entry in entries(path, self.setting.workdir, self.homes[0])
        ]
        extra["protected_write"] += [path for text in by_program for path in extent_of(text).paths]
        for name in FIELDS:
            own = (*paths.get("writable", ()), *paths.get("own_files", ()))
            texts = [text for text in getattr(setting, name) if name != "writable" or text not in by_program]
            paths[name] = tuple(self._entries(name, [*texts, *extra.get(name, [])], own))
        self.places = Places(setting, paths, self._without, self._when)
        self.reach = Reach(setting)
        shut = self.reach.shut
        self.statement.kept_names |= {name for host in shut if len(name := host.partition(".")[0].replace("-", "")) > 5}
        if pattern(_SET_BY).search(setting.task):
            named = (host for host in self.reach.blocked_hosts if host in self.task)
            names = {host.removeprefix("www.").partition(".")[0].replace("-", "") for host in named}
            self.statement.kept_names |= {name for name in names if len(name) > 8} - self.project.names
        self.addresses += [_address(f"https://{one}") for one in (*self.reach.permitted_hosts.closed, *shut)]
        self.open -= self.closed
        if pattern(r"\b(before|prior to) (the|a|its|any) (\w+ )?fix").search(self.task):
            self.closed.add("history")
        self.nouns = secrets(setting.task)
        """Words for what is kept, where no path says it."""
        for text in (*setting.protected_read, *setting.hidden_tests):
            if not is_path(text) and not self.project.are_in(text) and not paths_in(text):  # else the paths say what is meant
                self.nouns |= nouns(text)
        self.nouns -= self.project.names
        self.fixes_project = bool(setting.project) and pattern(_FAULT).search(self.task) is not None
        """Whether the task is to fix a project that lies elsewhere, too."""
        spelled = {
            part.rstrip("/")
            for name in ("protected_read", "protected_write", "hidden_tests", "verifier", "result_file")
            for entry in self.places.paths[name]
            for part in (entry.prefix, entry.ending)
            if len(part.rstrip("/")) > 4 and "*" not in part and part.rstrip("/") != self.workdir
        }
        parts = alternatives(escaped(part) for part in sorted(spelled, key=len)[:40])
        self._spelled = pattern(parts) if parts else None

    def _entries(self, name: str, texts: Iterable[str], own: Collection[Entry]) -> Iterable[Entry]:
        for text in (part for one in texts for part in ((one,) if name == "verifier" else parts(one))):
            extent = extent_of(text)
            paths = [] if self.project.are_in(text) and not is_path(text) else list(extent.paths)  # those are places, not the thing
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
                if name in ("verifier", "result_file") and is_handed_in(path, text, name, self.setting, own):
                    continue
                if "://" in path or pattern(_SITE).search(path):
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

    @cached_property
    def closed_folders(self) -> tuple[str, ...]:
        """Folders that are kept from being read, and whose names no others bear."""
        kept = (entry for name in ("protected_read", "hidden_tests") for entry in self.places.paths[name] if entry.within)
        folders = dict.fromkeys(entry.within.rstrip("/") for entry in kept)
        return tuple(one for one in folders if len(name := one.rpartition("/")[2]) > 5 and name not in NO_NAMES | PLAIN_FOLDERS)

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
        return frozenset(name for text in kept if " " in text or "$" in text for name in first_groups(_VARIABLE, text))

    @cached_property
    def _refused_uses(self) -> tuple[str, ...]:
        """The clauses that forbid to use or to know something, in small letters."""
        told = (one.text.lower().replace("'s", "") for one in clauses(self.setting.task) if one.forbids)
        return tuple(one for one in told if pattern(_USES).search(one))

    def refuses_variable(self, name: str) -> bool:
        """Tell whether a variable is named after what the task forbids to use: `JUDGE_SEED`, after `the judge's random seed`."""
        words = pattern(r"[a-z]{3,}").findall(name.lower())
        if len(words) < 2 or not self._refused_uses:
            return False
        named = passing(r"\b" + r"(?: \w+)? ".join(words) + r"\b")
        return any(named.search(one) for one in self._refused_uses)

    @cached_property
    def refuses_threads(self) -> bool:
        """Whether reviews, issues and discussions of others are refused."""
        return pattern(_THREADS).search(refused_words(self.setting).lower()) is not None

    @cached_property
    def project_words(self) -> frozenset[str]:
        """The words of the project's names and addresses."""
        return frozenset(pattern(r"[a-z]{4,}").findall(" ".join(self.setting.project).lower())) - _NO_PROJECT

    @cached_property
    def refuses_write_ups(self) -> bool:
        """Whether what others wrote of how they solved it is refused."""
        return pattern(r"\b(?:write[- ]?ups?|walk[- ]?throughs?)\b").search(refused_words(self.setting).lower()) is not None

    @cached_property
    def finished(self) -> frozenset[str]:
        """Beginnings of the words for finished work of others that the task refuses: `analys`, `essa`."""
        told = [one.text.lower() for one in clauses(self.setting.task) if one.forbids]
        return frozenset(
            str(pattern(r"(?:ies|[ei]?s|y)$").sub("", word)) for one in told for word in first_groups(_FINISHED_WORK, one)
        )

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

    @cached_property
    def base(self) -> BaseCommits:
        """By which commits and names the setting calls the base."""
        return BaseCommits(self.setting)

    @property
    def asks_web(self) -> bool:
        """Whether the task is to be answered with the web."""
        return "network" in self.open or not {"*", "any", "all"}.isdisjoint(self.reach.permitted_hosts.names)

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
            for entry in self.places.paths[field]
        )

    def named_in_words(self, path: str) -> bool:
        """Tell whether plain words that protect a part of something name a file."""
        if not self._phrases:
            return False
        name = path.rpartition("/")[2].lower()
        return len(name) > 3 and any(name in phrase for phrase in self._phrases)

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
            "closed machine": self.reach.closed_machines or self.reach.only_ports,
            "fixes a project": self.fixes_project,
            "forbidden address": self.addresses,
            "history kept": self.keeps_history,
            "kept by words": self.nouns,
            "kept party": self.parties,
            "named in words": self._phrases,
            "project copy": self.project.names,
            "shadow of kept": self.places.paths["protected_read"] or self.places.paths["hidden_tests"],
            "use refused": self.refusals,
            "rationed program": rations(self.setting.task),
            "command refused": refused_commands(self.setting.task) or kept_things(self.setting.task),
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


def _above(path: str) -> Iterable[str]:
    """Return the folders above a path."""
    return accumulate(path.rpartition("/")[0].split("/"), "{}/{}".format)


def _forms(path: str) -> tuple[str, str]:
    bare = path.rstrip("/*")
    return bare, bare.rpartition("/")[2] if "." in bare else bare


def _same(full: str, text: str, workdir: str) -> bool:
    return any(one.text == full for one in entries(text, workdir))


def _address(path: str) -> Any:
    bare = (path.partition("://")[2] or path).lower().removeprefix("www.")
    text = pattern(r":\d+(/|$)").sub(r"\1", bare).removesuffix("/**").rstrip("/*")[:900]
    return passing(escaped(text).replace(r"\x2a", ".*"))
