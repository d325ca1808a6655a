"""Tool calls in text: `reply ↔ calls`, one file per form; `call_format(name)` picks one."""

from __future__ import annotations

from rosellm.roserlhf.codec.calls.named import FORMATS as FORMATS
from rosellm.roserlhf.codec.calls.named import call_format as call_format
from rosellm.roserlhf.codec.calls.protocol import CallFormat as CallFormat
from rosellm.roserlhf.codec.calls.protocol import Schemas as Schemas
from rosellm.roserlhf.codec.calls.protocol import parameters_of as parameters_of
from rosellm.roserlhf.codec.calls.protocol import relocated as relocated
