"""As whom code logs in at a database or a broker -> `code` acts, target `connects as`, detail the name."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.patterns import pattern

_HINT = (
    r"://[\w.-]+(?::[^@\s\"'`/]*)?@"
    r"|(?i)\b(?:psycopg|asyncpg|pymysql|createPool|createConnection|new (?:Client|Pool)|sql\.Open|jdbc:|connect\()"
)
_ADDRESS = (
    r"(?i)\b(?:postgres(?:ql)?|mysql|mariadb|mongodb|redis|rediss|amqps?|mssql|clickhouse)(?:\+\w+)?://"
    r"([a-z][\w.-]{2,40})(?::[^@\s\"'`/]*)?@"
)
_GIVEN = r"(?i)\buser(?:name)?[\"']?\s*[:=]\s*[\"'`]?([a-z][\w-]{2,40})\b"
_MOST = 8


def acts_of_logins(code: str) -> Iterator[Act]:
    """Yield the names under which code logs in.

    Example:
        >>> [act.detail for act in acts_of_logins('new Client("postgres://warden:x@db/shop"); new Pool({ user: "clerk" })')]
        ['warden', 'clerk']
        >>> list(acts_of_logins("user = 'clerk'"))
        []
    """
    if pattern(_HINT).search(code) is None:
        return
    found = [one for words in (_ADDRESS, _GIVEN) for one in pattern(words).finditer(code)]
    for one in found[:_MOST]:
        yield Act("code", "connects as", one.group(1), span=one.span())
