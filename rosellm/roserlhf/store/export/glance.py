"""What an export reads of a skeleton: `msgpack -> lengths, roles, turns and a few fields`; texts, calls and results stay bytes."""

from __future__ import annotations

import functools
from typing import Any

from rosellm.roserlhf.errors import StoreError
from rosellm.roserlhf.store.encoding import Packed, pack_record, unescape, unpack_record
from rosellm.roserlhf.store.skeleton import FIELDS
from rosellm.roserlhf.trajectory import SCHEMA_VERSION, PolicyAction, TokenSpan, Trajectory, TransitionRecord

_OF_RECORD = (
    *("environment_version", "tokenizer_hash", "parent", "run_id"),
    *("member", "attempt", "policy_name", "trainable", "failure"),
)


@functools.cache
def _decoder() -> Any:
    """Make a decoder that gives the named fields of each class as attributes and leaves the others undecoded."""
    import msgspec

    def part(cls: type, **kinds: Any) -> Any:
        names = FIELDS[cls][: max(map(FIELDS[cls].index, kinds)) + 1]
        fields = [(name, kinds.get(name, msgspec.Raw)) for name in names]
        return msgspec.defstruct(cls.__name__, fields, array_like=True, gc=False)

    span = part(TokenSpan, token_ids=int | str, role=Any)  # of a copy these two are the record and where it starts
    action = part(PolicyAction, token_ids=int, turn=Any)
    answer = part(TransitionRecord, observation=_many(span), turn=Any, reward_components=Any, cause=Any, blame=Any)
    others: dict[str, Any] = dict.fromkeys(_OF_RECORD, Any)
    record = part(Trajectory, prompt=_many(span), actions=_many(action), transitions=_many(answer), **others)
    whole = tuple.__class_getitem__((int, record, msgspec.Raw))
    return msgspec.msgpack.Decoder(whole, ext_hook=unescape)


def _many(item: Any) -> Any:
    return list.__class_getitem__(item)


def glance(packed: Packed) -> tuple[Packed, Any]:
    """Return the record, brought to the present schema, and the fields of its skeleton as attributes.

    Raises:
        StoreError: the skeleton is none.
    """
    try:
        version, fields, _ = _decoder().decode(packed.skeleton)
        if version != SCHEMA_VERSION:
            packed = pack_record(unpack_record(packed))
            _, fields, _ = _decoder().decode(packed.skeleton)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"a stored skeleton must hold the fields of a record, got one that does not: {error}") from error
    return packed, fields
