"""`sqlite3`, `duckdb`, `psql`, `mysql`, `jq`: statements that read and write files, and the database file itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.shell import command as commands
from rosellm.roserlhf.guard.shell.file import read_path, write_path
from rosellm.roserlhf.guard.shell.manifests import set_by_query
from rosellm.roserlhf.guard.shell.program import Arguments, apply
from rosellm.roserlhf.guard.shell.shell import Shell, shortened
from rosellm.roserlhf.guard.shell.table import programs
from rosellm.roserlhf.guard.shell.value import ANYTHING, Value

_GLUED: Final = re.compile(r"'\s*\|\|\s*'")
"""Between two strings that SQL puts together."""
_CHANGES: Final = re.compile(
    r"(?i)\b(?:update|insert|delete|drop|alter|create|replace|vacuum|truncate|reindex)\b|^\s*\.(?:import|restore|clone)", re.M
)
_READS: Final = re.compile(
    r"(?i)\b(?:readfile|read_csv\w*|read_json\w*|read_parquet|read_text|read_blob|parquet_scan|glob|"
    r"pg_read_(?:binary_)?file|pg_ls_dir|load_file|sniff_csv"
    r"|fsdir|lsdir|csv)\s*\(\s*'((?:[^']|'')*)'|\b(?:from|join|attach(?:\s+database)?|infile)\s+'((?:[^']|'')*)'|\.(?:read|"
    r"open|load|import|restore|archive)\s+"
    r"(?:--?\w+\s+)*['\"]?([^\s'\"]+)|\\(?:i|ir|include|copy\s+.*?\bfrom)\s+'?([^\s';]+)"
)
_BUNDLED: Final = re.compile(r"-[A-Za-z]+[cef]$")
"""Short options in one word, of which the last takes a statement or a script: `-Atc`."""
_OPENS: Final = re.compile(
    r"(?i)\b(?:pg_read_(?:binary_)?file|pg_ls_dir|pg_stat_file|lo_import|load_file|readfile|fsdir|lsdir|read_\w+|scan_\w+|"
    r"parquet_scan|glob|"
    r"openrowset|bulk\s+insert|utl_file|dbms_lob|bfilename|xmlparse|file|infile|copy|attach|load_extension|sys_eval|url)\b"
)
"""What opens files in the server; its path may be put together from pieces."""
_QUOTED_PATH: Final = re.compile(r"'(/[\w.@%+/-]{2,400})'")
_WRITES: Final = re.compile(
    r"(?i)\b(?:writefile)\s*\(\s*'((?:[^']|'')*)'|\b(?:to|outfile|dumpfile|into)\s+'((?:[^']|'')*)'|\.(?:output|once|log|"
    r"save|backup|dump)\s+"
    r"(?:--?\w+\s+)*['\"]?([^\s'\"]+)|\\(?:o|w)\s+'?([^\s';]+)"
)
_RUNS: Final = re.compile(
    r"(?im)^\s*(?:\.(?:shell|system)|\\!|system|\\\.)\s+(.+)$|\bprogram\s+'((?:[^']|'')*)'|\bedit\([^)]*'((?:[^']|'')*)'\)"
)


def statements(shell: Shell, code: str, program: str) -> bool:
    """Read SQL with the client's own commands; tell whether it changes the database."""
    shell.act("run", "sql", shortened(code, 2_000), sql="yes")
    if "||" in code:
        code = _GLUED.sub("", code)
    for found in _READS.finditer(code):
        read_path(shell, next(group for group in found.groups() if group), program)
    if _OPENS.search(code):
        known = {group for found in _READS.finditer(code) for group in found.groups() if group}
        for path in dict.fromkeys(_QUOTED_PATH.findall(code)[:40]):
            if path not in known:
                read_path(shell, path, program)
    for found in _WRITES.finditer(code):
        target = next((group for group in found.groups() if group), "")
        if target not in ("stdout", "off", ""):
            write_path(shell, target, program, "truncate")
    for found in _RUNS.finditer(code):
        shell.evaluate(next(group for group in found.groups() if group), program, new=True)
    if code.strip() and UNKNOWN not in code[:1]:
        shell.read("sql", code, program)
    return _CHANGES.search(code) is not None


def _database(shell: Shell, argv: list[str]) -> Value:
    name = argv[0].rpartition("/")[2]
    words = argv[1:]
    if name in ("psql", "mysql", "mariadb"):
        words = [part for word in words for part in ((f"-{word[1:-1]}", f"-{word[-1]}") if _BUNDLED.match(word) else (word,))]
    arguments = Arguments(programs()["sqlite3"], words)
    operands = arguments.operands
    codes = (
        [*operands[1:], *arguments.values("statement")]
        if name in ("sqlite3", "duckdb", "sqlite", "litecli")
        else arguments.values("statement")
    )
    codes += [text for text in shell.stdin or () if text != UNKNOWN]
    for file in arguments.values("script"):
        codes += [text for text in read_path(shell, file, name) if text != UNKNOWN]
    for option, role, value in arguments.valued:
        if role not in ("statement", "script"):
            apply(shell, role, value, name, {}, option)
    changes = [statements(shell, code, name) for code in codes]
    if name in ("sqlite3", "duckdb", "sqlite", "litecli") and operands and operands[0] not in (":memory:", ""):
        place = operands[0].removeprefix("file:").split("?")[0]
        read_path(shell, place, name)
        if any(changes):
            write_path(shell, place, name, "in place", given={"script": shortened("; ".join(codes), 400)})
    return ANYTHING


def _jq(shell: Shell, argv: list[str]) -> Value:
    arguments = Arguments(programs()["jq"], argv[1:])
    operands = arguments.operands
    for option, role, value in arguments.valued:
        if role != "skip":
            apply(shell, role, value, "jq", {}, option)
    if not arguments.values("patterns"):
        for code in operands[:1]:
            if "$ENV" in code or re.search(r"\benv\b", code):
                shell.act("environment", "*", "read")
            for found in re.finditer(r"(?:import|include)\s+\"([^\"]+)\"", code):
                read_path(shell, found[1], "jq")
            for operand in operands[1:]:
                set_by_query(shell, operand, code)
        operands = operands[1:]
    if "none" in arguments.flags:
        return ANYTHING
    for operand in operands:
        if "in_place" in arguments.flags:
            write_path(shell, operand, argv[0], "in place")
        read_path(shell, operand, commands.known_as(argv[0]))
    return ANYTHING


READERS: Final[dict[str, Callable[[Shell, list[str]], Value]]] = {
    **dict.fromkeys(
        ["sqlite3", "sqlite", "duckdb", "litecli", "psql", "mysql", "mariadb", "mongosh", "redis-cli", "clickhouse"], _database
    ),
    **dict.fromkeys(["jq", "yq", "gojq", "jaq", "dasel", "xq", "tomlq"], _jq),
}
