"""One exception tree: every error of this package is a `RoseError` and also a standard type.

Callers may catch the standard type (`ValueError`, `TypeError`, `RuntimeError`, `ImportError`) or the whole tree. Messages name the
argument, the requirement and the value that was given, and the fix where there is one; `checks` writes most of them.

To add a class: derive from `RoseError` and one standard type, give it a one-line docstring that says when it is raised, keep the
single-string constructor (that is what makes every class picklable).
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "AuditError",
    "CheckpointError",
    "ConfigError",
    "DeviceError",
    "DtypeError",
    "GraphError",
    "GroupError",
    "MaskError",
    "MissingExtraError",
    "ModelError",
    "NonFiniteError",
    "RangeError",
    "RecordError",
    "RoseError",
    "RunFolderError",
    "SandboxError",
    "ShapeError",
    "StoreError",
    "TeacherError",
    "TemplateError",
    "ToolError",
    "VerifierError",
]


class RoseError(Exception):
    """Any error raised on purpose by this package."""


class ShapeError(RoseError, ValueError):
    """Shapes do not fit together, or a dimension has the wrong length."""


class DtypeError(RoseError, TypeError):
    """A tensor or argument has the wrong type."""


class ArgumentError(RoseError, TypeError):
    """A keyword argument that nothing reads, or one that is missing."""


class DeviceError(RoseError, ValueError):
    """Tensors live on different devices."""


class RangeError(RoseError, ValueError):
    """A number lies outside the interval in which the formula is defined."""


class NonFiniteError(RoseError, ValueError):
    """NaN or infinity stands where a number is needed."""


class GraphError(RoseError, RuntimeError):
    """A derivative is asked for that is not computed."""


class MaskError(RoseError, ValueError):
    """A mask is not boolean or exactly 0/1, or selects nothing where something is needed."""


class ModelError(RoseError, ValueError):
    """A model is not built in the way that is asked of it."""


class GroupError(RoseError, ValueError):
    """A group is too small, partial, or formed in a way the estimator does not define."""


class TeacherError(RoseError, ValueError):
    """A teacher does not fit the student: another vocabulary, tokenizer or span of tokens, or a route that leads to none."""


class RecordError(RoseError, ValueError):
    """A trajectory record would break one of its rules."""


class ConfigError(RoseError, ValueError):
    """A configuration key or value is unknown, unused or out of range."""


class StoreError(RoseError, RuntimeError):
    """The event log cannot be written or read."""


class RunFolderError(RoseError, RuntimeError):
    """A run folder is missing, already there, not writable or of another run."""


class SandboxError(RoseError, RuntimeError):
    """There is no sandbox to run a program in, or it did not start; nothing was run."""


class CheckpointError(RoseError, RuntimeError):
    """A checkpoint is missing, damaged or does not belong to this run."""


class AuditError(RoseError, ValueError):
    """A batch or a run has findings at or above the severity that the caller set as the limit."""


class ToolError(RoseError, RuntimeError):
    """A tool cannot do what it was asked to; the message is its answer to the policy, with the status `error`."""


class VerifierError(RoseError, RuntimeError):
    """A verifier crashed, took too long or returned no number in [0, 1]: the answer is unscored, neither right nor wrong."""


class MissingExtraError(RoseError, ImportError):
    """An optional dependency is not installed; the message is the command that installs it."""


_EXTRA_OF = {
    **dict.fromkeys(["pydantic", "rich", "msgspec", "transformers", "tokenizers", "safetensors"], "train"),
    "pyarrow": "store",
    "bm25s": "env",
    **dict.fromkeys(["tree_sitter", "tree_sitter_bash", "re2"], "guard"),
    "peft": "lora",
    **dict.fromkeys(["gguf", "accelerate"], "gguf"),
}


def missing_extra(error: ModuleNotFoundError) -> ImportError:
    """Turn a failed import into the command that installs it; an import that no extra provides comes back as it is."""
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRA_OF:
        return error
    extra = _EXTRA_OF[module]
    return MissingExtraError(f"this needs {module}, which is not installed; pip install 'rosellm[{extra}]'", name=module)


class TemplateError(RoseError, ValueError):
    """A chat template refuses a conversation, or cannot be served."""
