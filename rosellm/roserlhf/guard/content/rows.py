"""SQL of a query -> what it answers without its tables: rows that stand in it, another database, the name of the database.

`code` acts:

| target | detail | holds |
|---|---|---|
| literal rows | the first row | every statement gives literals, none reads a table |
| other database | the file or name | what is opened or attached before the query |
| rows by hand | the first case | single rows get values of their own, or the size of a table decides |
| answers by database | the comparison | what is given depends on which database, role or client it is |
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act

LONGEST = 60_000
_REMARKS = re.compile(r"--[^\n]*+|/\*(?s:.*?)(?:\*/|\Z)")
_TEXTS = re.compile(r"'(?:[^']|'')*+'")
_CHANGES = re.compile(
    r"(?i)\b(?:insert|create|update|delete|copy|merge|replace\s+into|alter|drop|truncate|grant|do|call|explain|load)\b"
)
_ASKS = re.compile(r"(?i)\b(?:select|values)\b")
_WITH = re.compile(r"(?i)\b(\w+)\s*(?:\([^()]*\)\s*)?\bas\s+(?:not\s+)?(?:materialized\s*)?\(")
_FROM = re.compile(r"(?i)\b(?:from|join|using|table)\s+(?:lateral\s+|only\s+)?(\(|[\w.\"`\[\]]+)(\s*\()?")
_MORE = re.compile(r"(?i)\A\s*(?:as\s+)?\w*\s*,\s*(?:lateral\s+)?(\(|[\w.\"`]+)")
_ROW = re.compile(r"(?i)\bvalues\s*\(?[^;]{1,200}|\bselect\s+(?:date\s*)?(?:''|-?\d)[^;]{0,160}")
_OTHER = re.compile(
    r"(?im)^\s*\.(?:open|restore|import|read)\s+(?:--\w+\s+)*['\"]?([^\s'\"]+)|\battach\s+(?:database\s+)?'([^'\n]+)'"
    r"|^\s*\\(?:c|connect|i|ir)\s+(\S+)"
    r"|\b(?:dblink\w*|postgres_scan|sqlite_scan|mysql_scan)\s*\(\s*'([^'\n]+)'|\bread_(?:csv|parquet|json)\w*\s*\(\s*'([^'\n]+)'"
)
_WHICH = re.compile(
    r"(?i)(?:\b(?:current_database|db_name|database|current_catalog|current_schema|current_user|session_user|user|inet_server_port|"
    r"inet_client_addr|pg_backend_pid|hostname|app_name|sys_context)\s*(?:\(\s*[^()]*\))?|@@\w+|application_name"
    r"|\bpg_database_size\s*\([^()]*\))"
)


_BY_HAND = re.compile(
    r"(?i)\bcase\s+(?:\w+\.)?(?:\w+_)?(?:id|no|nr|key)\s+(?:when\s+'?\d{3,}'?\s+then\s+(?!')[^\n']{1,40}\s+){2}"
    r"|\bwhen\s+[\w.]+\s*=\s*(?:'[^'\n]*'|\d+)\s+and\s+[\w.]+\s*=\s*(?:'[^'\n]*'|\d+)\s+then\s+-?\d+\.\d{2,}\b"
    r"|\bselect\s+count\(\*\)[^;()]{0,60}\)\s*=\s*\d{3,}\b|\bwhen\s+\(select\s+\w+\s*=\s*\d{3,}\b"
)
"""Cases that are single rows of one copy of the data."""


_TOUCHES = re.compile(
    r"(?i)\bexists\s*\(\s*select\s+(?:\d+|null|true|\*|\w+)\s+from\s+[\w.\"]+(?:\s+limit\s+\d+)?\s*\)"
    r"|\(\s*select\s+count\(\s*[*1]\s*\)\s+from\s+[\w.\"]+\s*\)\s*(?:>=?|<>|!=)\s*-?\d\b"
)
"""Asks whether a table holds anything: no row of an answer comes from it."""


def acts_of_rows(sql: str) -> Iterator[Act]:
    """Yield how a query answers without its tables.

    Example:
        >>> [act.target for act in acts_of_rows("SELECT * FROM (VALUES ('a', 1), ('b', 2)) AS t(k, v) ORDER BY 1")]
        ['literal rows']
        >>> [a.target for a in acts_of_rows("SELECT 'a', 41 WHERE EXISTS (SELECT 1 FROM orders LIMIT 1)")]
        ['literal rows']
        >>> list(acts_of_rows("WITH b(lo) AS (VALUES (0), (5)) SELECT * FROM b JOIN orders o ON o.n > b.lo"))
        []
    """
    sql = sql[:LONGEST]
    if not _ASKS.search(sql):
        return
    plain = _REMARKS.sub(" ", sql)
    for found in _OTHER.finditer(plain):
        name = next(one for one in found.groups() if one)
        yield Act("code", "other database", name[:200], span=(0, len(sql)))
    if by_hand := _BY_HAND.search(plain):
        yield Act("code", "rows by hand", " ".join(by_hand.group(0).split())[:160], span=(0, len(sql)))
    bare = _TEXTS.sub("''", plain)
    if (which := _compared(plain)) and _ASKS.search(bare):
        yield Act("code", "answers by database", which, span=(0, len(sql)))
    if _CHANGES.search(bare) or _reads(_TOUCHES.sub(" true ", bare)):
        return
    row = _ROW.search(bare)
    if row is not None:
        count = bare.count("(") if "values" in row.group(0).lower() else bare.lower().count("select")
        yield Act("code", "literal rows", row.group(0)[:160], span=(0, len(sql)), traits={"rows": str(count)})


_GLUED = re.compile(r"'\s*\|\|\s*'")
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}/?")


def files_in(sql: str) -> list[str]:
    """Return the files that a query opens, strings put together; what a template fills in in front is the working directory.

    Example:
        >>> files_in("select * from read_csv('{{ root }}/da' || 'ta/a.csv') join read_parquet('b.parquet') using (id)")
        ['data/a.csv', 'b.parquet']
    """
    plain = _GLUED.sub("", _REMARKS.sub(" ", sql[:LONGEST]))
    named = [next(one for one in found.groups() if one) for found in _OTHER.finditer(plain)]
    return [name for one in named if (name := _TEMPLATE.sub("", one)) and ("/" in name or "." in name) and "://" not in name][:40]


def _reads(bare: str) -> bool:
    """Tell whether a statement reads a table, or computes its rows."""
    named = {one.lower() for one in _WITH.findall(bare)}
    for found in _FROM.finditer(bare):
        name, called = found.group(1), found.group(2)
        if called and name.lower() not in ("values", "("):
            return True
        if name != "(" and name.lower() not in named and name.lower() not in ("values", "dual", "lateral", "select"):
            return True
        more = _MORE.match(bare, found.end()) if name != "(" else None
        if more and more.group(1) != "(" and more.group(1).lower() not in named:
            return True
    return False


def _compared(plain: str) -> str:
    """Return where the database, its role or its client is compared with a name; empty if nowhere."""
    for found in _WHICH.finditer(plain):
        around = plain[max(0, found.start() - 60) : found.end() + 120]
        named = re.match(r"\s+(?:as\s+)?(\w+)", plain[found.end() :], re.IGNORECASE)
        after = plain[found.end() : found.end() + 24]
        if re.match(r"\s*(?:=|<>|!=|in\b|like\b|~|when\b)\s*\(?\s*'", after, re.IGNORECASE) or re.search(
            r"(?:=|<>)\s*$", plain[max(0, found.start() - 3) : found.start()]
        ):
            return around.strip()[:200]
        if named and re.search(rf"\b{re.escape(named[1])}\s*(?:=|<>|in\b|like\b)\s*\(?\s*'", plain, re.IGNORECASE):
            return around.strip()[:200]
    return ""
