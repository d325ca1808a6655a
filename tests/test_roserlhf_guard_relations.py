"""What a setting keeps in a database, and what statements reach of it."""

from __future__ import annotations

import pytest

from rosellm.roserlhf.guard.relations import Relations

KEPT = Relations.of(["schema grader of database shop", "queries sent by role grader"], ["table grader.results"])


@pytest.mark.parametrize(
    "statement",
    [
        "select * from grader.expected",
        "select query from pg_stat_activity where usename = 'gra' || 'der'",
        "select pg_get_viewdef(oid) from pg_class where nspname like 'g%r'",
        "set search_path to grader",
        "select 1 from t where n ~ '^grad'",
        "select reverse('redarg')",
        "select definition from pg_views where schemaname not in ('shop')",
    ],
)
def test_what_reaches_the_kept_schema(statement: str) -> None:
    assert KEPT.reached("sql", statement)


@pytest.mark.parametrize(
    "statement",
    [
        "select grade, graders from shop.pupils",
        "select 1 -- not grader",
        "select query from pg_stat_activity where pid = pg_backend_pid()",
        "select count(*) from shop.orders where region like 'n%'",
        "create view agent.v as select 1",
    ],
)
def test_what_does_not(statement: str) -> None:
    assert not KEPT.reached("sql", statement)
