"""Records as bytes and back: `Trajectory -> Packed -> bytes -> Packed -> Trajectory`, exact in every bit.

```
Packed   skeleton    msgpack of everything but the big arrays (see rosellm.roserlhf.store.skeleton)
         token_ids   ids of the record's whole row of tokens, in the order of Trajectory.spans()
         logprobs    behaviour log-probabilities of the sampled ids among them, in order
```

Whoever wants the arrays, or writes them to another format, needs no `Trajectory`. Decoding goes through the constructors, so what
comes back obeys every rule of the record; an unknown field is an error. Two things msgpack cannot say are escaped: strings with
lone surrogates (a model can write one in a JSON argument) and integers beyond 64 bits.
"""

from __future__ import annotations

import functools
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rosellm.roserlhf.errors import MissingExtraError, RecordError, StoreError
from rosellm.roserlhf.store.skeleton import Shown, put_together, take_apart, upgraded
from rosellm.roserlhf.trajectory import PolicyAction, Trajectory

_TEXT, _INTEGER, _PAIRS = 1, 2, 3


@functools.cache
def _msgpack() -> tuple[Any, Any, Any]:
    """Return the encoder, the decoder and the extension type, importing msgspec on first use."""
    try:
        import msgspec
    except ImportError as error:
        raise MissingExtraError("the event log needs msgspec: pip install 'rosellm[train]'") from error
    encoder = msgspec.msgpack.Encoder(enc_hook=_subclass)
    return encoder, msgspec.msgpack.Decoder(ext_hook=unescape), msgspec.msgpack.Ext


def _subclass(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is not plain data")


def pack(value: Any) -> bytes:
    """Encode plain data (None, numbers, strings, bytes, lists, tuples, string-keyed mappings)."""
    encoder, _, _ = _msgpack()
    try:
        packed: bytes = encoder.encode(value)
    except (UnicodeEncodeError, OverflowError):
        packed = encoder.encode(_escape(value))
    return packed


def unpack(data: bytes) -> Any:
    """Decode what `pack` wrote.

    Raises:
        StoreError: the bytes are not a whole value.
    """
    _, decoder, _ = _msgpack()
    try:
        return decoder.decode(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"the stored bytes must be one whole msgpack value, got {len(data)} other byte(s): {error}") from error


def _escape(value: Any) -> Any:
    encoder, _, ext = _msgpack()
    if isinstance(value, str):
        return value if _encodable(value) else ext(_TEXT, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return ext(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(value, Mapping):
        if all(map(_encodable, value)):
            return {k: _escape(v) for k, v in value.items()}
        return ext(_PAIRS, encoder.encode([(_escape(k), _escape(v)) for k, v in value.items()]))
    return [_escape(v) for v in value] if isinstance(value, (list, tuple)) else value


def _encodable(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def unescape(code: int, data: memoryview) -> Any:
    if code == _TEXT:
        return bytes(data).decode("utf-8", "surrogatepass")
    if code == _INTEGER:
        return int.from_bytes(data, "big", signed=True)
    if code == _PAIRS:
        return dict(unpack(bytes(data)))
    raise ValueError(f"unknown extension {code}")


ENCODING_VERSION = 2
"""First byte of a record at rest. (Version 1 was one msgpack map, whose first byte is never below 128.)"""

_HEADER = struct.Struct("<BccxIII")
_WIDEST = 2**63 - 1
_FEW = 64
"""So many numbers are converted one by one sooner than numpy has been called."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A record as a skeleton and two arrays.

    `numpy.frombuffer(packed.token_ids, packed.token_ids.typecode)` is a view of the array.
    """

    skeleton: bytes
    """msgpack of `(schema_version, fields, wide)`; `wide` holds `(position, id)` of the ids ≥ 2**63."""
    token_ids: array[int]
    """Ids of the whole row of tokens: `array('H' | 'i' | 'q')`, the narrowest that holds them; -1 stands for an id ≥ 2**63."""
    logprobs: array[float]
    """Of the sampled ids: `array('f')` where float32 holds every one of them bit for bit, otherwise `array('d')`."""

    def to_bytes(self) -> bytes:
        """Write the bytes that rest in the log: a header, the skeleton, the ids, the log-probabilities.

        They are not deflated: that shrinks small ones by a third, and took about 40 % of an append.
        """
        ids, logprobs = _little_endian(self.token_ids), _little_endian(self.logprobs)
        types = (self.token_ids.typecode.encode(), self.logprobs.typecode.encode())
        header = _HEADER.pack(ENCODING_VERSION, *types, len(self.skeleton), len(ids), len(logprobs))
        return b"".join((header, self.skeleton, ids, logprobs))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what :meth:`to_bytes` wrote.

        Raises:
            StoreError: the bytes are not a record, or of a newer encoding.
        """
        if data[:1] != bytes([ENCODING_VERSION]):
            got = data[0] if data else "no byte"
            raise StoreError(f"a stored record must have encoding version {ENCODING_VERSION}, got {got}; upgrade rosellm")
        try:
            _, id_type, logprob_type, *sizes = _HEADER.unpack_from(data)
            ends = [_HEADER.size, *sizes]
            for i in (1, 2, 3):
                ends[i] += ends[i - 1]
            if ends[3] != len(data):
                raise ValueError(f"{ends[3]} bytes announced, {len(data)} found")
            skeleton, ids, logprobs = (data[ends[i] : ends[i + 1]] for i in range(3))
            return cls(skeleton, _array(id_type.decode(), "Hiq", ids), _array(logprob_type.decode(), "fd", logprobs))
        except (struct.error, ValueError) as error:
            raise StoreError(f"a stored record must be whole, got {len(data)} byte(s) that are none: {error}") from error


def _little_endian(values: array[Any]) -> bytes:
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    return values.tobytes()


def _array(typecode: str, allowed: str, data: bytes) -> array[Any]:
    if typecode not in allowed:
        raise ValueError(f"unknown array type {typecode!r}")
    values = array(typecode, data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def pack_record(trajectory: Trajectory) -> Packed:
    """Take a record apart; `sealed` is not kept, because what is at rest is sealed.

    Example:
        >>> from rosellm.roserlhf.trajectory import PolicyAction, TokenSpan
        >>> prompt = [TokenSpan([70000, 7], "user")]
        >>> action = PolicyAction(0, [5], [-0.5], "v1", "", stop_reason="interrupted")
        >>> record = Trajectory("t", "k", "shop-1", "tok-1", [action], prompt=prompt)
        >>> packed = pack_record(record)
        >>> packed.token_ids, packed.logprobs
        (array('i', [70000, 7, 5]), array('f', [-0.5]))
        >>> unpack_record(packed) == record
        True
    """
    fields, row = take_apart(trajectory)
    token_ids, wide = _all_ids(row)
    return Packed(pack((trajectory.schema_version, fields, wide)), token_ids, _all_logprobs(trajectory.actions))


def _all_ids(row: Shown) -> tuple[array[int], list[tuple[int, int]]]:
    pieces = [part.packed_ids for part in row]
    known = [piece for piece in pieces if piece is not None]
    if len(known) < len(pieces):
        return _with_wide_ids([token for part in row for token in part.token_ids])
    typecodes = {piece.typecode for piece in known} or {"H"}
    widest = max(typecodes, key="Hiq".index)
    return array(widest, b"".join(known if len(typecodes) == 1 else [array(widest, piece) for piece in known])), []


def _with_wide_ids(ids: list[int]) -> tuple[array[int], list[tuple[int, int]]]:
    wide = [(i, token) for i, token in enumerate(ids) if token > _WIDEST]
    return array("q", [-1 if token > _WIDEST else token for token in ids]), wide


def _all_logprobs(actions: Sequence[PolicyAction]) -> array[float]:
    exact = array("d", b"".join([action.packed_logprobs for action in actions]))
    # Equal is bit for bit here: rounding keeps the sign of a zero, and no log-probability is NaN.
    if len(exact) < _FEW:
        rounded = array("f", exact)
        return rounded if rounded.tolist() == exact.tolist() else exact
    np = _numpy()
    wide = np.frombuffer(exact)
    with np.errstate(all="ignore"):
        narrow = wide.astype(np.float32)
    return array("f", narrow.tobytes()) if (narrow == wide).all() else exact


@functools.cache
def _numpy() -> Any:
    import numpy as np

    return np


def unpack_record(packed: Packed) -> Trajectory:
    """Build the record again, checked and sealed.

    Raises:
        StoreError: the parts do not belong together, or the record breaks a rule or has a field this version does not know.
    """
    opened = unpack(packed.skeleton)
    if not isinstance(opened, list) or len(opened) != 3 or type(opened[0]) is not int:
        raise StoreError(f"a stored skeleton must hold a schema version, fields and wide ids, got {type(opened).__name__}")
    schema_version, fields, wide = opened
    ids: list[int] = packed.token_ids.tolist()
    try:
        for position, token in wide:
            ids[position] = token
        return put_together(upgraded(fields, schema_version), ids, packed.logprobs.tolist())
    except (RecordError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        raise StoreError(f"a stored record must obey the rules of the record, got one that does not: {error}") from error
