"""Names under which the same thing is reached -> one canonical dotted name."""

from __future__ import annotations

import builtins
import sys

STANDARD = sys.stdlib_module_names
BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_")) | {"__import__", "__build_class__", "exit", "quit"}

USUAL = {
    "np": "numpy",
    "pd": "pandas",
    "plt": "matplotlib.pyplot",
    "pl": "polars",
    "tf": "tensorflow",
    "sp": "scipy",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "sns": "seaborn",
    "nx": "networkx",
    "Path": "pathlib.Path",
    "load_dataset": "datasets.load_dataset",
    "hf_hub_download": "huggingface_hub.hf_hub_download",
    "snapshot_download": "huggingface_hub.snapshot_download",
    "numpy": "numpy",
    "pandas": "pandas",
    "requests": "requests",
    "httpx": "httpx",
    "torch": "torch",
    "psutil": "psutil",
    "pytest": "pytest",
    "yaml": "yaml",
    "get_ipython": "get_ipython",
    "monkeypatch": "monkeypatch",
    "mocker": "mocker",
    "__builtins__": "builtins",
    "__loader__": "__loader__",
    "__spec__": "__spec__",
}
"""What a name means that this code does not bind: the cells before bound it."""

_MODULES = {
    "builtins": "",
    "__builtin__": "",
    "__builtins__": "",
    "_io": "io",
    "_pyio": "io",
    "posix": "os",
    "nt": "os",
    "posixpath": "os.path",
    "ntpath": "os.path",
    "genericpath": "os.path",
    "_pickle": "pickle",
    "cPickle": "pickle",
    "urllib2": "urllib.request",
    "httplib": "http.client",
    "_frozen_importlib": "importlib._bootstrap",
    "imp": "imp",
    "pathlib2": "pathlib",
    "_ctypes": "ctypes",
    "_sqlite3": "sqlite3",
    "_codecs": "codecs",
    "subprocess32": "subprocess",
    "_thread": "_thread",
}
_NAMES = {
    "io.open": "open",
    "codecs.open": "codecs.open",
    "os.fdopen": "os.fdopen",
    "pathlib.PosixPath": "pathlib.Path",
    "pathlib.PurePath": "pathlib.Path",
    "pathlib.PurePosixPath": "pathlib.Path",
    "pathlib.WindowsPath": "pathlib.Path",
    "importlib.__import__": "__import__",
    "importlib._bootstrap._gcd_import": "importlib.import_module",
    "importlib._bootstrap.__import__": "__import__",
    "unittest.mock.patch": "mock.patch",
    "unittest.mock": "mock",
    "os.getcwdb": "os.getcwd",
    "requests.api.get": "requests.get",
    "requests.sessions.Session": "requests.Session",
    "pandas.io.parsers.read_csv": "pandas.read_csv",
    "site.Quitter": "exit",
    "_sitebuiltins.Quitter": "exit",
    "glob.iglob": "glob.glob",
    "os.environb": "os.environ",
    "os.execl": "os.execl",
}


def canonical(name: str) -> str:
    """Return the one name of something that has several."""
    if name in _NAMES:
        return _NAMES[name]
    root, _, rest = name.partition(".")
    if root in _MODULES:
        module = _MODULES[root]
        name = f"{module}.{rest}" if module and rest else (rest or module or "builtins")
        return _NAMES.get(name, name)
    return name


MEANT = {**{name: canonical(name) for name in STANDARD}, **{name: canonical(full) for name, full in USUAL.items()}}
"""Canonical names of what is not bound."""


def library(name: str) -> bool:
    """Tell whether a module is one of Python's own."""
    return name.partition(".")[0] in STANDARD
