"""Text with stand-ins -> ids: a tokenizer in which every control token is spelled by its stand-in, and so by nothing else.

One call encodes a whole conversation, so that what a tokenizer does at the edges of control tokens (blanks that they swallow, a
blank that it puts before text) is what it does, and not an imitation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from tokenizers import Tokenizer

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.markup import Markup, Standing
from rosellm.roserlhf.errors import RangeError, TemplateError

_HALF = re.compile("[\ud800-\udfff]")


def encoder(
    backend: dict[str, Any], markup: Markup, control_ids: Mapping[str, int]
) -> Callable[[Standing], tuple[list[int], list[tuple[int, int]]]]:
    """Make what encodes text with stand-ins: ids, and the place [start, end) in the text of each.

    Args:
        backend: a tokenizer as its JSON says.
        markup: its control tokens.
        control_ids: their ids.

    Raises:
        TemplateError: the tokenizer normalises its control tokens together with text, and stand-ins do not come through.
        RangeError: (the function returned) half a surrogate pair, or text that the vocabulary does not cover.
    """
    names = markup.stand_ins
    by_stand_ins = _respelled(backend, names)
    normalised = "".join(
        names[token["content"]] for token in backend["added_tokens"] if token["normalized"] and token["content"] in names
    )
    if by_stand_ins.normalizer is not None and by_stand_ins.normalizer.normalize_str(normalised) != normalised:
        got = f"a {type(by_stand_ins.normalizer).__name__} that takes them out"
        fix = "give its added tokens normalized=False"
        raise checks.fail(TemplateError, "tokenizer", "leave private-use characters as they are", got, fix=fix)
    # only for a text that holds a stand-in itself
    as_text = cache(lambda: _respelled(backend, {token: 2 * name for token, name in names.items()}))
    true_ids = {by_stand_ins.token_to_id(names[token]): place for token, place in control_ids.items()}
    true_ids = {theirs: ours for theirs, ours in true_ids.items() if theirs != ours}
    unknown = _unknown_id(backend["model"], by_stand_ins, names)

    def encode(text: Standing) -> tuple[list[int], list[tuple[int, int]]]:
        ids: list[int] = []
        places: list[tuple[int, int]] = []
        if not text.text.isascii() and (half := _HALF.search(text.text)):
            raise checks.fail(RangeError, "text", "hold whole characters", repr(half.group()))
        for begin, end, by in _pieces(text, by_stand_ins, as_text):
            encoding = by.encode(text.text[begin:end], add_special_tokens=False)
            if unknown is not None and unknown in encoding.ids:
                _refuse_unknown(encoding, unknown, text.text[begin:end], markup)
            ids += [true_ids.get(i, i) for i in encoding.ids] if true_ids else encoding.ids
            places += [(begin + start, begin + stop) for start, stop in encoding.offsets] if begin else encoding.offsets
        return ids, places

    return encode


def _unknown_id(model: Mapping[str, Any], tokenizer: Tokenizer, names: Mapping[str, str]) -> int | None:
    """Return the id that stands for text outside the vocabulary; None if there is none."""
    token = model.get("unk_token")
    found: int | None = model.get("unk_id") if token is None else tokenizer.token_to_id(names.get(token, token))
    return found


def _respelled(backend: Mapping[str, Any], names: Mapping[str, str]) -> Tokenizer:
    """Build the same tokenizer with other texts for its control tokens; merges that would spell one out of pieces are left out."""
    model = dict(backend["model"])
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(word, word): place for word, place in vocabulary.items()}
    else:
        model["vocab"] = [[names.get(word, word), score] for word, score in vocabulary]
    if "merges" in model:
        pairs = (tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"])
        model["merges"] = [pair for pair in pairs if not names.keys() & {*pair, "".join(pair)}]
    if model.get("unk_token") is not None:
        model["unk_token"] = names.get(model["unk_token"], model["unk_token"])
    added = [token | {"content": names.get(token["content"], token["content"])} for token in backend["added_tokens"]]
    other = {"model": model, "added_tokens": added, "truncation": None, "padding": None, "post_processor": None}
    return Tokenizer.from_str(json.dumps({**backend, **other}))


def _refuse_unknown(encoding: Any, unknown: int, text: str, markup: Markup) -> None:
    """Refuse text that becomes the unknown token: what it said would be lost."""
    for found, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
        if found == unknown and text[start:end] not in markup.characters:
            fix = "add it to the vocabulary, or use a tokenizer that knows every byte"
            raise checks.fail(RangeError, "text", "be covered by the vocabulary", repr(text[start:end]), fix=fix)


def _pieces(text: Standing, by_stand_ins: Tokenizer, as_text: Callable[[], Tokenizer]) -> Iterator[tuple[int, int, Tokenizer]]:
    """Cut a text at the characters that only look like stand-ins; almost always it is one piece."""
    begin = 0
    for place in (*text.literal, len(text.text)):
        if begin < place:
            yield begin, place, by_stand_ins
        if place < len(text.text):
            yield place, place + 1, as_text()
        begin = place + 1
