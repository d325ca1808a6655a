"""Does a statement reach what a setting keeps in a database? `phrases -> names kept; statement -> the one that it reaches`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.patterns import passing, pattern

_LONGEST = 8_000
_NAMED = (
    r"\b(?:schemas?|tables?|views?|roles?|users?|relations?|collections?|keyspaces?|"
    r"(?:psql|mysql)\b.* -u)\s+[`\"']?([a-z_][\w.]{2,})"
)
_NOT_NAMES = frozenset(
    [
        "and",
        "but",
        "that",
        "which",
        "with",
        "from",
        "other",
        "others",
        "the",
        "any",
        "every",
        "all",
        "not",
        "are",
        "for",
        "server",
        "settings",
        "may",
        "can",
        "must",
        "who",
        "whose",
        "called",
        "named",
    ]
)
_LEFT_OPEN = r"\b(?:every|all|any|other) schemas? (?:but|except|than|other than) (\w+)"
_WHOLE = r"\b(databases?|db|rows?|records?|tables?)\b"
_TEMPORARY = frozenset(("pg_temp", "temp"))
_QUERIES = r"\b(quer(y|ies)|statements?)\b"
_CHANGES = r"\b(update|insert|delete|drop|alter|create|truncate|grant|revoke|merge|replace|comment on|copy \S+ from)\b"
_CHANGED = (
    r"\b(?:update|insert into|delete from|merge into|truncate(?: table)?|alter (?:table|view|schema)"
    r"|drop (?:table|view|schema)(?: if exists)?"
    r"|create (?:or replace )?(?:temp(?:orary)? |unlogged |materialized )*(?:table|view|schema)(?: if not exists)?)\s+([\w.]+)"
)
"""What a statement changes, where it says so at once: what it reads from is another thing."""
_OTHERS_QUERIES = (
    r"pg_stat_(activity|statements|get_activity)|pg_prepared_statements|processlist|performance_schema|events_statements|"
    r"pg_current_logfile|\blog_(statement|min_duration|destination)|auto_explain|v\$sql|dm_exec|sys\.session|pg_log|csvlog|"
    r"sqlite_stmt|log_directory"
)
_OWN_QUERIES = r"pg_backend_pid\(|=\s*(current_user|session_user|user\b)|pid\s*=\s*\d+"
_ALL_BUT_OWN = r"(?:<>|!=|\bnot in)\s*\(?\s*(?:current_user|session_user|user\b)"
_DEFINITIONS = (
    r"pg_get_(viewdef|functiondef|ruledef|triggerdef)|prosrc|view_definition|routine_definition|pg_(views|matviews|rules|proc)\b|"
    r"(database|schema|cursor|query)_to_xml|pg_stats\b|\bsqlite_(master|schema)\b"
)
_ALL_BUT = r"\bnot\s+(in|like|ilike|similar)\b|<>|!=|!~"
_DUMPS = r"^\S*(pg_dump|pg_dumpall|mysqldump|mariadb-dump|pg_basebackup|mongodump)$"
_PART = r"(?:^|\s)(-n|-t|--schema|--table|-N|--exclude-schema|-T)\b"


@dataclass(frozen=True)
class Relations:
    """What of a database a setting keeps from the agent."""

    unread: frozenset[str]
    """Schemas, tables, views and roles that must not be read, small."""
    unchanged: frozenset[str]
    """Those that must not be changed."""
    queries: bool
    """Whether the statements of others are kept."""
    unread_but: frozenset[str] = frozenset()
    """The only schemas that may be read; empty where no sentence keeps all others."""
    unchanged_but: frozenset[str] = frozenset()
    """The only ones that may be changed."""
    whole: bool = False
    """Whether a whole database must not be changed by statements of the agent's own."""

    @classmethod
    def of(cls, unread: Iterable[str], unchanged: Iterable[str]) -> Relations:
        """Gather the names in phrases.

        Example:
            >>> found = Relations.of(["schema grader of database shop", "queries sent by role judge"], ["table j.results"])
            >>> sorted(found.unread), sorted(found.unchanged), found.queries
            (['grader', 'judge'], ['j.results'], True)
        """
        unread, unchanged = list(unread), list(unchanged)
        queries = any(pattern(_QUERIES).search(one.lower()) for one in unread)
        names = _names(unchanged)
        whole = not names and any(pattern(_WHOLE).search(one.lower()) for one in unchanged if " " in one)
        return cls(_names(unread), names, queries, _left_open(unread), _left_open(unchanged), whole)

    def __bool__(self) -> bool:
        return bool(self.unread or self.unchanged or self.queries or self.unread_but or self.unchanged_but or self.whole)

    def keeps(self, relation: str, *, changed: bool) -> bool:
        """Tell whether a schema or table, as SQL names it, is kept from being read, or from being changed.

        Example:
            >>> kept = Relations.of(["every schema but agent"], ["table grader.results"])
            >>> kept.keeps("grader.x", changed=False), kept.keeps('Agent."x"', changed=False), kept.keeps("results", changed=True)
            (True, False, True)
        """
        small = relation.lower().replace('"', "")
        schema = small.partition(".")[0] if "." in small else ""
        if changed and (self.whole or (not schema and "public" in self.unchanged)) and schema not in _TEMPORARY:
            return True
        for left_open in (self.unread_but, self.unchanged_but if changed else frozenset[str]()):
            if left_open and schema and schema not in left_open | _TEMPORARY:
                return True
        return any(
            small == name or small.startswith(f"{name}.") or (not schema and name.endswith(f".{small}"))
            for name in (self.unread | self.unchanged if changed else self.unread)
        )

    def reached(self, program: str, words: str) -> str:
        """Return what a statement, or the arguments of a program that dumps, reaches of it; empty if nothing.

        Example:
            >>> kept = Relations(frozenset(["grader"]), frozenset(), True)
            >>> [kept.reached("sql", one) for one in ("select 1 from c where n like 'g%r'", "select grade from shop.a")]
            ['grader', '']
            >>> kept.reached("sql", "select n from c where n !~ '^pg_|grader'")
            ''
        """
        if pattern(_DUMPS).search(program):
            names = [name for name in self.unread if _named(name, words.lower())]
            return names[0] if names else "" if pattern(_PART).search(words) or not self.unread else "the whole database"
        small = plain_statement(words[:_LONGEST])
        if self.queries and pattern(_OTHERS_QUERIES).search(small) and not pattern(_OWN_QUERIES).search(small):
            return "the statements of others"
        if self.unread and pattern(_OTHERS_QUERIES).search(small) and pattern(_ALL_BUT_OWN).search(small):
            return "the statements of all others"
        asked = pattern(_LEFT_OUT).sub(" ", small) if self.unread and pattern(_LEFT_OUT).search(small) else small
        for name in sorted(self.unread):
            if _reaches(name, asked):
                return name
        if self.unread and pattern(_DEFINITIONS).search(small) and pattern(_ALL_BUT).search(small):
            return "all but what is named"
        if changes := len(pattern(_CHANGES).findall(small)):
            changes -= small.count(" or replace ")
            changed = list(_all(_CHANGED, small))
            places = " ".join(changed) if len(changed) == changes else small
            return next((name for name in sorted(self.unchanged) if _reaches(name, places)), "")
        return ""


_LEFT_OUT = r"!~~?\*?\s*e?'[^']{1,80}'|\bnot (?:i?like|similar to)\s+e?'[^']{1,80}'"
"""What a condition leaves out by a pattern."""


def _names(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(
        name.rstrip(".") for text in texts for name in _all(_NAMED, text.lower()) if name.rstrip(".") not in _NOT_NAMES
    )


def _left_open(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(name for text in texts for name in _all(_LEFT_OPEN, text.lower()))


def _all(words: str, text: str) -> Iterator[str]:
    yield from (found.group(1) for found in pattern(words).finditer(text))


def _reaches(name: str, small: str) -> bool:
    if _named(name, small) or ("reverse" in small and name[::-1] in small) or name.encode().hex() in small:
        return True
    return any(_fits(glob, name) for glob in _all(r"\b(?:i?like|similar to)\s+e?'([^']{2,64})'", small)) or any(
        _matches(words, name) for words in _all(r"[^!]~\*?\s*e?'([\w^$.*+?|()\[\]-]{2,64})'", small)
    )


@lru_cache(maxsize=512)
def _word(name: str) -> str:
    return rf"(^|[^a-z0-9_]){escaped(name)}([^a-z0-9_]|$)"


def _named(name: str, small: str) -> bool:
    return name in small and passing(_word(name)).search(small) is not None


def _fits(glob: str, name: str) -> bool:
    """Tell whether a pattern of LIKE takes in a name, and says something of it."""
    letters = sum(one.isalnum() for one in glob)
    inside = "".join({"%": ".*", "_": "."}.get(one, escaped(one)) for one in glob)
    return letters > 0 and passing(f"^{inside}$").search(name) is not None


def _matches(words: str, name: str) -> bool:
    try:
        return passing(words).search(name) is not None
    except ConfigError:  # no expression of this library; the statement would fail or mean something else
        return False


@lru_cache(maxsize=256)
def plain_statement(words: str) -> str:
    """Write a statement small, without comments and quotes of names, strings that are joined put together.

    Example:
        >>> plain_statement("SELECT * FROM \\"Gra\\" WHERE a = 'gra' || 'der' -- grader")
        "select * from gra where a = 'grader' "
    """
    small = words.lower()
    small = pattern(r"--[^\n]*|/\*[^*]*\*/").sub(" ", small)
    small = pattern(r"\bchr?\((\d{2,3})\)").sub(lambda found: f"'{chr(int(found.group(1)))}'", small)
    small = pattern(r"'\s*\|\|\s*e?'").sub("", small)
    small = pattern(r"concat(?:_ws)?\(([^()]*)\)").sub(lambda found: "'" + "".join(_all(r"'([^']*)'", found.group(1))) + "'", small)
    return str(small).replace('"', "").replace("`", "").rstrip("\n").replace("  ", " ")
