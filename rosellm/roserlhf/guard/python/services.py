"""Databases, addresses, data sets, repositories and modules that a program asks for."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rosellm.roserlhf.guard.act import UNKNOWN
from rosellm.roserlhf.guard.python import assigning, attributes, effects, notebook
from rosellm.roserlhf.guard.python.fold import NOTHING
from rosellm.roserlhf.guard.python.machine import each
from rosellm.roserlhf.guard.python.value import (
    STAR,
    Contents,
    Place,
    Thing,
    options,
    sources,
    text,
)

if TYPE_CHECKING:
    from rosellm.roserlhf.guard.python.calling import Call


def _execute(call: Call) -> Any:
    """SQL: what it writes, and the files that it names."""
    owner = call.owner
    _statement(call)
    if not (
        type(owner) is Thing and (owner.name.startswith(("database", "duckdb", "pandasql", "polars")) or owner.name.startswith("?"))
    ):
        return effects.guess(call)
    words = text(call.argument(0))
    for path in _QUOTED.findall(words[:4096]):
        effects.reads(call, Place(path.replace("*", STAR)) if "*" in path else path, "sql")
    if type(owner.subject) is str and _SQL_WRITES.match(words):
        call.machine.findings.add("write", owner.subject, "sql", call.node, sql=effects.short(words, 160))
    return Contents((owner.subject,)) if type(owner.subject) is str else NOTHING


_STATEMENT = re.compile(
    r"\s*(?:--[^\n]*\n\s*)*(?:\(\s*)?(?:select|with|table|values|insert|update|delete|drop|create|alter|copy|explain|do|"
    r"call|set|grant|"
    r"refresh|show|truncate|declare|prepare|execute|lock|comment|vacuum|analyze|merge|attach|describe|reset|listen)\b",
    re.IGNORECASE,
)


def _statement(call: Call) -> None:
    """Add a statement that a database is given, with the values that it is filled with."""
    given = call.argument(0, "sql")
    for one in options(given):
        words = text(one.subject if type(one) is Thing and type(one.subject) is str else one)
        if _STATEMENT.match(words[:400]):
            filling = [text(value) for value in _flat([*call.arguments[1:3], *call.keywords.values()])]
            full = effects.short(" ".join([words, *filling]), 2000)
            call.machine.findings.add("run", "sql", full, call.node, sql="yes")


def _flat(values: list[Any]) -> list[Any]:
    """Return the texts among arguments and in the lists and tables that they are."""
    found: list[Any] = []
    for one in values:
        inner = list(one.values()) if type(one) is dict else list(one) if type(one) in (list, tuple) else [one]
        found += [value for value in inner[:16] if type(value) is str]
    return found


def _read_sql(call: Call) -> Any:
    """`pandas.read_sql(statement, connection)`."""
    _statement(call)
    return effects.guess(call)


_DATA_SETS = {"sklearn": "www.openml.org", "openml": "www.openml.org", "ucimlrepo": "archive.ics.uci.edu"}


def _data_set(call: Call) -> Any:
    """A data set that somebody publishes, by its name."""
    name = text(call.argument(0, "name", call.keywords.get("id", call.keywords.get("data_id", UNKNOWN))))
    host = _DATA_SETS.get(call.name.partition(".")[0], "data.invalid")
    call.machine.findings.add("fetch", f"https://{host}/data/{name}", call.name, call.node, data_set=name or UNKNOWN)
    return Contents((f"https://{host}/data/{name}",))


_QUOTED = re.compile(r"""['"]((?:[\w.\-]*/)[^'"\s]{1,400}|[\w\-]+\.(?:csv|parquet|json|db|sqlite))['"]""")


_SQL_WRITES = re.compile(r"\s*(?:insert|update|delete|drop|create|replace|alter|truncate|attach|vacuum)\b", re.IGNORECASE)


def _queried(call: Call) -> Any:
    """`connection.sql(statement)`: a method that is called so elsewhere, too."""
    owner = call.owner
    _statement(call)
    known = type(owner) is Thing and owner.name.startswith(("database", "duckdb"))
    return _execute(call) if known else effects.guess(call)


def _duck(call: Call) -> Any:
    call.owner = Thing("duckdb")
    return _execute(call)


def _request(call: Call) -> Any:
    """`HTTPConnection.request(method, path)`."""
    host = call.owner.subject if type(call.owner) is Thing else None
    path = text(call.argument(1, "url", ""))
    full = path if "://" in path or type(host) is not str else f"https://{host}/{path.lstrip('/')}"
    if "://" in full:
        call.machine.nested("url", full, call.node, method=call.name)
    return Thing(f"{call.name}()", full)


def _hub(call: Call) -> Any:
    """Models and data sets of the Hugging Face hub."""
    name = text(call.argument(0, "repo_id" if "hub" in call.name else "path"))
    files = call.keywords.get("data_files", call.keywords.get("data_dir"))
    if files is not None:
        for one in files.values() if type(files) is dict else [files]:
            effects.reads(call, one, call.name)
        return Contents(tuple(call.machine.paths(files)) if type(files) is not dict else (UNKNOWN,))
    if name.startswith((".", "/", "~")):
        return Contents(tuple(effects.reads(call, name, call.name)))
    kind = "datasets/" if "dataset" in call.name or call.keywords.get("repo_type") == "dataset" else ""
    inner = text(call.argument(1, "filename", "")) if "hf_hub" in call.name else ""
    rest = f"/resolve/main/{inner}" if inner else ""
    call.machine.nested("url", f"https://huggingface.co/{kind}{name}{rest}", call.node, split=text(call.keywords.get("split", "")))
    return Contents((f"https://huggingface.co/{kind}{name}",))


def _kaggle(call: Call) -> Any:
    call.machine.nested("url", f"https://www.kaggle.com/{text(call.argument(0, 'dataset'))}", call.node, method=call.name)
    return NOTHING


def _pip(call: Call) -> Any:
    return effects.shell(call, ["pip", *(call.argument(0) if type(call.argument(0)) is list else [UNKNOWN])])


def _revision(call: Call) -> Any:
    """`git.Repo().commit(revision)` and its like."""
    verb = "log" if call.name.endswith("iter_commits") else "show"
    call.machine.nested("git", f"{verb} {text(call.argument(0, 'rev', 'HEAD'))}", call.node)
    return Contents((UNKNOWN,), name="git")


def _clone(call: Call) -> Any:
    words = f"clone {text(call.argument(0, 'url'))} {text(call.argument(1, 'to_path', ''))}"
    call.machine.nested("git", words, call.node)
    return NOTHING


GIT = ("git.Repo().git.", "git.Git().", "git.cmd.Git().", "git.Repo().remotes.", "git.Repo().remote().")


def git(call: Call) -> Any:
    """`git.Repo().git.VERB(...)` of GitPython."""
    verb = call.name.rpartition(".")[2].replace("_", "-")
    words = [] if verb == "execute" else [verb]
    for one in call.arguments:
        words += [text(x) for x in one] if type(one) in (list, tuple) else [text(one)]
    words += [f"--{key.replace('_', '-')}" + ("" if value is True else f"={text(value)}") for key, value in call.keywords.items()]
    call.machine.nested("git", " ".join(words[1:] if words[:1] == ["git"] else words), call.node)
    return Contents((UNKNOWN,), name="git")


def _module(call: Call) -> Any:
    """`sys.modules.get(name)`."""
    return attributes.item(call.machine, Thing("sys.modules"), call.argument(0), call.node)


def _set_module(call: Call) -> Any:
    assigning.set_element(call.machine, Thing("sys.modules"), call.argument(0), call.argument(1), call.node)
    return call.argument(1)


def _remove_module(call: Call) -> Any:
    call.machine.findings.add("patch", f"sys.modules[{text(call.argument(0))!r}]", "deleted", call.node)
    return NOTHING


def _modules_in(call: Call) -> Any:
    """`pkgutil.iter_modules(paths)`."""
    found = []
    places = call.argument(0, "path")
    for one in places if type(places) in (list, tuple) else [places]:
        if one is not None:
            effects.reads(call, one, call.name, "list")
            found.append(Thing("pkgutil.ModuleInfo", posixpath.join(text(one), STAR)))
    return found or Thing(f"{call.name}()")


def _spec_of(call: Call) -> Any:
    """`finder.find_spec(name)`."""
    about = call.owner.subject if type(call.owner) is Thing else None
    return Thing("spec", about)


def _executed(call: Call) -> Any:
    """`spec.loader.exec_module(module)`."""
    about = call.owner.subject if type(call.owner) is Thing else None
    for path in [*(effects.reads(call, about, call.name) if type(about) is str else []), *sources(call.owner)]:
        call.machine.findings.add("import", path, call.name, call.node)
    return NOTHING


def _magic(call: Call) -> Any:
    kind = text(call.argument(0))
    sign = "%%" if call.name.endswith("cell_magic") else "%"
    line = f"{kind} {text(call.argument(1, default=''))}" if "run_" in call.name else kind
    notebook.command(call.machine, sign, line, text(call.argument(2, default="")), call.node)
    return NOTHING


HANDLERS: dict[str, Callable[[Call], Any]] = {
    **each(
        "git.Repo().commit git.Repo().tree git.Repo().iter_commits git.Repo().blame pygit2.Repository().revparse_single", _revision
    ),
    **each("duckdb.sql duckdb.query duckdb.execute polars.sql", _duck),
    **each("http.client.HTTPSConnection().request http.client.HTTPConnection().request", _request),
    **each(
        "datasets.load_dataset huggingface_hub.hf_hub_download huggingface_hub.snapshot_download datasets.load_dataset_builder",
        _hub,
    ),
    **each("evaluate.load transformers.AutoModel.from_pretrained transformers.AutoTokenizer.from_pretrained", _hub),
    **each("kaggle.api.dataset_download_files kaggle.api.competition_download_files kaggle.api.competition_download_file", _kaggle),
    **each("kagglehub.dataset_download kagglehub.competition_download kaggle.api.dataset_download_file", _kaggle),
    **each("pip.main pip._internal.main pip._internal.cli.main.main pip.__main__.main", _pip),
    **each("git.Repo.clone_from git.Repo.clone dulwich.porcelain.clone pygit2.clone_repository", _clone),
    **each("get_ipython().run_line_magic get_ipython().run_cell_magic get_ipython().magic", _magic),
    **each("pkgutil.iter_modules pkgutil.walk_packages", _modules_in),
    **each(
        "sklearn.datasets.fetch_openml openml.datasets.get_dataset openml.tasks.get_task ucimlrepo.fetch_ucirepo "
        "seaborn.load_dataset "
        "statsmodels.api.datasets.get_rdataset statsmodels.datasets.get_rdataset tensorflow_datasets.load tfds.load "
        "pmlb.fetch_data "
        "sklearn.datasets.fetch_kddcup99 sklearn.datasets.fetch_california_housing sklearn.datasets.fetch_covtype "
        "sklearn.datasets.fetch_20newsgroups ir_datasets.load torchvision.datasets.MNIST torchvision.datasets.CIFAR10",
        _data_set,
    ),
    **each("pandas.read_sql pandas.read_sql_query polars.read_database connectorx.read_sql", _read_sql),
    "sys.modules.get": _module,
    "sys.modules.setdefault": _set_module,
    "sys.modules.__setitem__": _set_module,
    "sys.modules.pop": _remove_module,
}
"""Functions, by canonical name."""
METHODS: dict[str, Callable[[Call], Any]] = {
    **each("sql query from_query execute_async fetch fetchrow fetchval raw", _queried),
    "execute": _execute,
    "executemany": _execute,
    "executescript": _execute,
    "find_spec": _spec_of,
    "exec_module": _executed,
    "load_module": _executed,
}
"""Methods, whatever they are called on."""
