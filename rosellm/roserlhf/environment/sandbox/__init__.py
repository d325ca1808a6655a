"""Programs that nobody has read, run where they cannot hurt: `Sandbox`, its sessions, and unit tests out of the program's reach."""

from rosellm.roserlhf.environment.sandbox.limits import Limits
from rosellm.roserlhf.environment.sandbox.result import Ending, Kind, SandboxResult
from rosellm.roserlhf.environment.sandbox.sandbox import Sandbox
from rosellm.roserlhf.environment.sandbox.session import SandboxSession
from rosellm.roserlhf.environment.sandbox.unit_tests import Verdict, unit_tests

__all__ = ["Ending", "Kind", "Limits", "Sandbox", "SandboxResult", "SandboxSession", "Verdict", "unit_tests"]
