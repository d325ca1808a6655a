"""`import rosellm.roserlhf` is free, and every public name is there when it is asked for."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
import types
from pathlib import Path

import pytest

import rosellm.roserlhf
from rosellm.roserlhf import errors

HEAVY = ["torch", "numpy", "pydantic", "transformers", "ray", "pyarrow", "httpx", "matplotlib", "rich"]


def run_python(code: str) -> str:
    """Run code in a fresh interpreter and return what it printed."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_or_its_command_loads_nothing_heavy() -> None:
    code = f"import sys, rosellm.roserlhf, rosellm.roserlhf.cli; print([m for m in {HEAVY} if m in sys.modules])"
    assert run_python(code) == "[]"


def test_records_errors_and_configuration_load_no_torch() -> None:
    code = "import sys; from rosellm.roserlhf import RoseError, recipes; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    assert run_python(code) == "[]"


@pytest.mark.parametrize("module", ["audit.explanation.explain", "cli.transcript", "audit.inspection.order"])
def test_reading_a_run_folder_does_not_wait_for_the_models_of_transformers(module: str) -> None:
    code = f"import sys, rosellm.roserlhf.{module}; print('transformers.modeling_utils' in sys.modules)"
    assert run_python(code) == "False"


@pytest.mark.parametrize("name", rosellm.roserlhf.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(rosellm.roserlhf, name) is not None


@pytest.mark.parametrize("door", ["advantages", "losses", "trajectory", "errors"])
def test_everything_a_door_shows_is_public(door: str) -> None:
    module = importlib.import_module(f"rosellm.roserlhf.{door}")
    assert set(module.__all__) <= set(rosellm.roserlhf.__all__)
    assert len(module.__all__) == len(set(module.__all__))


def test_type_checkers_see_the_names_that_exist() -> None:
    tree = ast.parse(Path(rosellm.roserlhf.__file__).read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {"__version__"}
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            seen |= set(importlib.import_module(str(node.module)).__all__) if alias.name == "*" else {alias.name}
    assert seen == set(rosellm.roserlhf.__all__)


def test_star_import_brings_exactly_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from rosellm.roserlhf import *", names)  # noqa: S102 - the statement under test
    assert set(names) - {"__builtins__"} == set(rosellm.roserlhf.__all__)


def test_every_error_class_is_public_and_survives_pickling() -> None:
    classes = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.RoseError)}
    assert classes <= set(rosellm.roserlhf.__all__)
    for name in classes:
        error = getattr(errors, name)("ratio must be positive, got -1")
        assert isinstance(error, (ValueError, TypeError, RuntimeError, ImportError)) or name == "RoseError"
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made one line above
        assert type(again) is type(error)
        assert str(again) == str(error)


def test_an_unknown_name_is_an_attribute_error_and_dir_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="no attribute 'clipped_polcy_loss'"):
        rosellm.roserlhf.clipped_polcy_loss  # type: ignore[attr-defined]  # noqa: B018
    assert set(rosellm.roserlhf.__all__) <= set(dir(rosellm.roserlhf))
    assert isinstance(importlib.import_module("rosellm.roserlhf").recipes, types.ModuleType)


def test_R75_a_missing_extra_is_its_install_command() -> None:
    code = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import rosellm.roserlhf as r\n"
        "try: r.recipes\n"
        "except r.MissingExtraError as error: print(error)"
    )
    # Python says "import of pydantic halted" for a blocked module, as it says "No module named" for one that is not installed
    assert run_python(code) == "this needs pydantic, which is not installed; pip install 'rosellm[train]'"


def test_a_missing_module_that_no_extra_provides_stays_what_it_is() -> None:
    error = ModuleNotFoundError("No module named 'colour'", name="colour")
    assert errors.missing_extra(error) is error
