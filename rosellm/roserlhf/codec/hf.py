"""A `transformers` tokenizer built in code from pieces of text, and the codec over it.

Vocabulary: control markers, the given pieces (longest match first), then every printable ASCII character and the newline. It loads
again with `AutoTokenizer.from_pretrained`, and its chat template writes the very ids that the codec writes.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.chat import ChatCodec
from rosellm.roserlhf.errors import RangeError

PAD, END, UNKNOWN = "<pad>", "<end>", "<unk>"
ROLES = ("system", "user", "assistant", "tool")
_CHARACTERS = string.printable[:95] + "\n"
_TEMPLATE = (
    "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] + '<end>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)


def build_tokenizer(pieces: Sequence[str]) -> PreTrainedTokenizerFast:
    """Build the tokenizer.

    Args:
        pieces: texts to keep whole, e.g. item names; single printable ASCII characters are always there.

    Raises:
        RangeError: an empty piece, or one that reads like a control marker.
    """
    markers = [PAD, UNKNOWN, END, *(f"<{role}>" for role in ROLES)]
    for piece in pieces:
        if not piece or any(marker in piece for marker in markers):
            raise checks.fail(RangeError, "vocabulary", "hold non-empty texts without control markers", repr(piece))
    words = list(dict.fromkeys([*pieces, *_CHARACTERS]))
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate([*markers, *words])}, unk_token=UNKNOWN))
    longest_first = sorted((word for word in words if len(word) > 1), key=lambda word: (-len(word), word))
    pattern = "|".join([*map(_escape, longest_first), r"[\s\S]"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        extra_special_tokens=[f"<{role}>" for role in ROLES],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = _TEMPLATE
    return fast


def _escape(text: str) -> str:
    return "".join(c if c.isalnum() else f"\\x{{{ord(c):x}}}" for c in text)


def tokenizer_hash(tokenizer: PreTrainedTokenizerFast) -> str:
    """SHA-256 of the tokenizer's serialised form and chat template."""
    return hashlib.sha256((tokenizer.backend_tokenizer.to_str() + str(tokenizer.chat_template)).encode()).hexdigest()


def chat_codec(tokenizer: PreTrainedTokenizerFast, tools: Sequence[Mapping[str, Any]]) -> ChatCodec:
    """Make the codec of a tokenizer from `build_tokenizer`."""
    unknown = _id_of(tokenizer, UNKNOWN)
    words = list(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        if unknown in ids:
            odd = next(c for c in text if c not in _CHARACTERS)
            raise checks.fail(
                RangeError, "text", "be covered by the vocabulary", repr(odd), fix="add it to the environment's vocabulary"
            )
        return ids

    return ChatCodec(
        encode=encode,
        decode=lambda ids: "".join(words[i] for i in ids),
        markers={role: _id_of(tokenizer, f"<{role}>") for role in ROLES},
        end_id=_id_of(tokenizer, END),
        tools=tools,
        tokenizer_hash=tokenizer_hash(tokenizer),
    )


def _id_of(tokenizer: PreTrainedTokenizerFast, token: str) -> int:
    found = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(found, int)
    return found
