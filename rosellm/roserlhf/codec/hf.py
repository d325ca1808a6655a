"""A `transformers` tokenizer built in code from pieces of text, and the codec over it.

Vocabulary: control markers, the given pieces (longest match first), then every printable ASCII character and the newline. It loads
again with `AutoTokenizer.from_pretrained`, and its chat template writes the very ids that the codec writes; only that the template,
being text, cannot keep a marker inside a message from becoming a control id, and the codec does.
"""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.chat import ChatCodec
from rosellm.roserlhf.codec.chat import Tokenizer as ChatTokenizer
from rosellm.roserlhf.codec.markers import MarkerCodec
from rosellm.roserlhf.codec.markup import Markup, Standing
from rosellm.roserlhf.errors import RangeError, RunFolderError, TemplateError

PAD, UNKNOWN, END = "<pad>", "<unk>", "<end>"
ROLES = ("system", "user", "assistant", "tool")
_MARKERS = (PAD, UNKNOWN, END, *(f"<{role}>" for role in ROLES))
_CHARACTERS = string.digits + string.ascii_letters + string.punctuation + " \n"
_TEMPLATE = (
    "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] + '<end>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)


def build_tokenizer(pieces: Sequence[str]) -> PreTrainedTokenizerFast:
    """Build the tokenizer.

    Args:
        pieces: texts to keep whole, e.g. item names; single printable ASCII characters are always there.

    Raises:
        RangeError: an empty piece, or one that holds a control marker.
    """
    for piece in pieces:
        if not piece or any(marker in piece for marker in _MARKERS):
            raise checks.fail(RangeError, "vocabulary", "hold non-empty texts without control markers", repr(piece))
    words = list(dict.fromkeys([*pieces, *_CHARACTERS]))
    ids = {word: i for i, word in enumerate([*_MARKERS, *words])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
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
    return "".join(f"\\x{{{ord(c):x}}}" for c in text)


def tokenizer_hash(tokenizer: PreTrainedTokenizerFast) -> str:
    """SHA-256 of the tokenizer's serialised form and chat template."""
    return hashlib.sha256((tokenizer.backend_tokenizer.to_str() + str(tokenizer.chat_template)).encode()).hexdigest()


def marker_codec(tokenizer: PreTrainedTokenizerFast, tools: Sequence[Mapping[str, Any]]) -> MarkerCodec:
    """Make the codec of a tokenizer from `build_tokenizer`.

    Args:
        tokenizer: it is copied; what happens to it later changes nothing here.
        tools: JSON schemas of the tools.
    """
    plain = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    plain.encode_special_tokens = True  # markers inside a text are characters like any others
    ids: dict[str, int] = plain.get_vocab()
    words = {i: word for word, i in ids.items()}

    def encode(text: str) -> list[int]:
        if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
            raise checks.fail(RangeError, "text", "hold whole characters", repr(text))
        encoding = plain.encode(text, add_special_tokens=False)
        found: list[int] = encoding.ids
        if ids[UNKNOWN] in found:
            start, end = encoding.offsets[found.index(ids[UNKNOWN])]
            fix = "add it to the environment's vocabulary"
            raise checks.fail(RangeError, "text", "be covered by the vocabulary", repr(text[start:end]), fix=fix)
        return found

    return MarkerCodec(
        encode=encode,
        decode=lambda token_ids: "".join(words[i] for i in token_ids),
        markers={role: ids[f"<{role}>"] for role in ROLES},
        end_id=ids[END],
        tools=tools,
        tokenizer_hash=tokenizer_hash(tokenizer),
    )


def chat_codec(tokenizer: PreTrainedTokenizerFast, tools: Sequence[Mapping[str, Any]], *, calls: str = "auto") -> ChatCodec:
    """Make the codec of a tokenizer with a chat template.

    Args:
        tokenizer: it is copied; what happens to it later changes nothing here.
        tools: JSON schemas of the tools.
        calls: format of the calls.
    """
    backend: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    added: list[str] = [token["content"] for token in backend["added_tokens"] if not token["content"].replace("▁", " ").isspace()]
    own: list[str] = [token["content"] for token in backend["added_tokens"] if not token["special"]]
    markup = Markup(added, own)
    control_ids: dict[str, int] = {token["content"]: token["id"] for token in backend["added_tokens"] if token["content"] in added}
    template = str(tokenizer.chat_template)

    def render(messages: list[dict[str, Any]], tools: list[Any] | None, prompt: bool) -> str:
        try:
            text = tokenizer.apply_chat_template(
                messages, tools=tools, chat_template=template, add_generation_prompt=prompt, tokenize=False
            )
        except (jinja2.TemplateError, TypeError, AttributeError, ValueError, KeyError, IndexError) as error:
            raise checks.fail(
                TemplateError, "messages", "be accepted by the chat template", f"{type(error).__name__}: {error}"
            ) from error
        return str(text)

    decoder = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    return ChatCodec(
        ChatTokenizer(
            encode=_encoder(backend, markup, control_ids),
            decode=lambda token_ids: str(decoder.decode(list(token_ids), skip_special_tokens=False)),
            render=render,
            markup=markup,
            control_ids=control_ids,
            eos_id=tokenizer.eos_token_id,
            identity=tokenizer_hash(tokenizer),
        ),
        tools,
        calls=calls,
    )


def _encoder(
    backend: dict[str, Any], markup: Markup, control_ids: Mapping[str, int]
) -> Callable[[Standing], tuple[list[int], list[tuple[int, int]]]]:
    """Make what encodes text with stand-ins: the same tokenizer, in which each control token is spelled by its stand-in."""
    names = markup.stand_ins
    encoder = _respelled(backend, names)
    as_text = _respelled(backend, {token: 2 * name for token, name in names.items()})
    true_ids = {encoder.token_to_id(names[token]): place for token, place in control_ids.items()}
    true_ids = {theirs: ours for theirs, ours in true_ids.items() if theirs != ours}

    def encode(text: Standing) -> tuple[list[int], list[tuple[int, int]]]:
        ids: list[int] = []
        places: list[tuple[int, int]] = []
        for begin, end, by in _pieces(text, encoder, as_text):
            encoding = by.encode(text.text[begin:end], add_special_tokens=False)
            ids += [true_ids.get(i, i) for i in encoding.ids] if true_ids else encoding.ids
            places += [(begin + start, begin + stop) for start, stop in encoding.offsets] if begin else encoding.offsets
        return ids, places

    return encode


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
    added = [token | {"content": names.get(token["content"], token["content"])} for token in backend["added_tokens"]]
    other = {"model": model, "added_tokens": added, "truncation": None, "padding": None, "post_processor": None}
    return Tokenizer.from_str(json.dumps({**backend, **other}))


def _pieces(text: Standing, encoder: Tokenizer, as_text: Tokenizer) -> Iterator[tuple[int, int, Tokenizer]]:
    """Cut a text at the characters that only look like stand-ins; almost always it is one piece."""
    begin = 0
    for place in (*text.literal, len(text.text)):
        if begin < place:
            yield begin, place, encoder
        if place < len(text.text):
            yield place, place + 1, as_text
        begin = place + 1


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Load a tokenizer that was saved beside a run's records; nothing is downloaded.

    Raises:
        RunFolderError: there is none, or it cannot be read.
    """
    try:
        found: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library raises nothing narrower
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise checks.fail(RunFolderError, "tokenizer", "be a folder with a readable tokenizer.json", f"{folder}: {why}") from error
    return found
