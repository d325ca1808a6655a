"""A guard for the episodes of environments that say what they are to be held against: `Guard → what the episode loop asks for`."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence

from rosellm.roserlhf import checks
from rosellm.roserlhf.environment.base import ToolEnvironment
from rosellm.roserlhf.environment.protocol import Environment, ToolRunner
from rosellm.roserlhf.errors import ConfigError
from rosellm.roserlhf.guard.guard import Guard, GuardedRunner
from rosellm.roserlhf.guard.rules import Suspicion
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.trajectory import ToolCall

MOST_SETTINGS = 1024
"""Settings that are kept, so that what rules and judges work out from one is worked out once."""


def guarding(guard: Guard) -> Callable[[Environment, ToolRunner], GuardedRunner]:
    """Return what puts the guard in front of the calls of an episode that has begun.

    The environment says what it is held against (`task_setting`) and may word its own dummy results (`dummy_result`).
    """

    def put(environment: Environment, runner: ToolRunner) -> GuardedRunner:
        if not isinstance(environment, ToolEnvironment):
            raise checks.fail(ConfigError, "environment", "be a ToolEnvironment to be guarded", type(environment).__name__)

        def dummy(call: ToolCall, suspicions: Sequence[Suspicion]) -> str:
            own = environment.dummy_result(call)
            return guard.dummy(call, suspicions) if own is None else own

        return guard.wrap(runner, _setting_of(environment), tools=environment.tools, dummy=dummy)

    return put


_settings: OrderedDict[str, Setting] = OrderedDict()


def _setting_of(environment: ToolEnvironment) -> Setting:
    """Return the setting of an environment; equal ones are one object over all steps, by which what is known of it is found."""
    given = environment.task_setting()
    if given is None:
        raise no_setting(type(environment))
    key = json.dumps(given, sort_keys=True, default=str)
    found = _settings.get(key)
    if found is None:
        found = _settings[key] = Setting.of(given)
        if len(_settings) > MOST_SETTINGS:
            _settings.popitem(last=False)
    return found


def no_setting(environment: type[ToolEnvironment]) -> Exception:
    """Say that an environment cannot be guarded."""
    fix = "say in it what is protected (guard.setting.Setting), or leave guard.policy off"
    return checks.fail(ConfigError, "environment", "define guard_setting to be guarded", environment.__name__, fix=fix)


def require_setting(environment: type[ToolEnvironment]) -> None:
    """Require of a class that its episodes can be guarded.

    Raises:
        ConfigError: it has no setting.
        DtypeError: what it has is none.
    """
    if environment.guard_setting is not None:
        Setting.of(environment.guard_setting)
    elif environment.task_setting is ToolEnvironment.task_setting:
        raise no_setting(environment)
