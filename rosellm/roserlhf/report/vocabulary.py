"""Token ids to text: `tokenizer.json -> {id: text}`, read with the standard library alone.

Understands the fast-tokenizer file of Hugging Face: `model.vocab` as {token: id} (BPE, WordPiece, WordLevel) or as a list of
[token, score] (Unigram), and `added_tokens`. Byte-level tokens are turned back into the text they stand for, `▁` into a space where
the file says that it means one. An id that the file does not know is shown as `#id`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Vocabulary:
    """Text of every known id."""

    texts: Mapping[int, str] = field(default_factory=dict)

    def text(self, token_id: int) -> str:
        """Return the text of one id, `#id` where it is unknown."""
        return self.texts.get(token_id, f"#{token_id}")


def read_vocabulary(path: Path) -> Vocabulary | None:
    """Read a `tokenizer.json`.

    Args:
        path: the file.

    Returns:
        The vocabulary; None where the file is missing or is not a tokenizer file.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    model = found.get("model") if isinstance(found, dict) else None
    if not isinstance(model, dict):
        return None
    kinds = set(_types(found.get("decoder"))) | set(_types(found.get("pre_tokenizer")))
    texts = {token_id: _readable(token, kinds) for token, token_id in _entries(model.get("vocab"))}
    for added in _list(found.get("added_tokens")):
        if isinstance(added, dict) and isinstance(added.get("id"), int) and isinstance(added.get("content"), str):
            texts[added["id"]] = added["content"]
    return Vocabulary(texts)


def _entries(vocab: object) -> Iterator[tuple[str, int]]:
    if isinstance(vocab, dict):
        yield from ((token, token_id) for token, token_id in vocab.items() if isinstance(token_id, int))
    elif isinstance(vocab, list):
        yield from (
            (entry[0], index)
            for index, entry in enumerate(vocab)
            if isinstance(entry, list) and entry and isinstance(entry[0], str)
        )


def _types(part: Any) -> Iterator[str]:
    """Name the kinds of a decoder or pre-tokenizer, nested sequences included."""
    if isinstance(part, dict):
        yield str(part.get("type"))
        for nested in ("decoders", "pretokenizers"):
            for inner in _list(part.get(nested)):
                yield from _types(inner)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _readable(token: str, kinds: set[str]) -> str:
    if "ByteLevel" in kinds and all(character in _BYTES for character in token):
        return bytes(_BYTES[character] for character in token).decode("utf-8", errors="backslashreplace")
    return token.replace("▁", " ") if "Metaspace" in kinds else token


def _byte_alphabet() -> dict[str, int]:
    """Return the stand-in of each byte in byte-level BPE: printable bytes are themselves, the others follow from U+0100."""
    itself = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in itself]
    return {chr(byte): byte for byte in itself} | {chr(256 + index): byte for index, byte in enumerate(others)}


_BYTES = _byte_alphabet()
