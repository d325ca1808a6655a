"""A `transformers` tokenizer built in code from pieces of text, and the codec over it.

Vocabulary: control markers, the given pieces (longest match first), then every printable ASCII character and the newline. It loads
again with `AutoTokenizer.from_pretrained`, and its chat template writes the very ids that the codec writes; only that the template,
being text, cannot keep a marker inside a message from becoming a control id, and the codec does.
"""

from __future__ import annotations

import copy
import hashlib
import json
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec.chat import ChatCodec
from rosellm.roserlhf.codec.chat import Tokenizer as ChatTokenizer
from rosellm.roserlhf.codec.description import TokenizerFacts
from rosellm.roserlhf.codec.encoder import encoder
from rosellm.roserlhf.codec.markers import MarkerCodec
from rosellm.roserlhf.codec.markup import Markup
from rosellm.roserlhf.codec.template import Render
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


def chat_codec(
    tokenizer: PreTrainedTokenizerFast, tools: Sequence[Mapping[str, Any]], *, calls: str = "auto", tell_tools: bool = True
) -> ChatCodec:
    """Make the codec of any tokenizer with a chat template.

    Args:
        tokenizer: it is copied; what happens to it later changes nothing here.
        tools: JSON schemas of the tools.
        calls: format of the calls: `function`, `hermes`, `llama3`, `pythonic`, `tags`, or `auto`, the one in which the template
            writes calls.
        tell_tools: tell of the tools in the system message where the template does not show them.

    Raises:
        TemplateError: there is no chat template, or one that cannot be served; the message says why.
        ConfigError: no call format of that name.
    """
    return ChatCodec(chat_tokenizer(tokenizer), tools, calls=calls, tell_tools=tell_tools)


def chat_tokenizer(tokenizer: PreTrainedTokenizerFast) -> ChatTokenizer:
    """Take from a tokenizer what the codec needs of it.

    Raises:
        TemplateError: it has no chat template, or is none of the fast ones.
    """
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise checks.fail(TemplateError, "tokenizer", "be a fast one, with a tokenizer.json", type(tokenizer).__name__)
    if not tokenizer.chat_template:
        raise checks.fail(TemplateError, "tokenizer", "have a chat template", "none", fix="set tokenizer.chat_template")
    backend: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    # runs of blanks are tokens of some vocabularies: text, whoever writes them
    added = [token for token in backend["added_tokens"] if not token["content"].replace("▁", " ").isspace()]
    markup = Markup([token["content"] for token in added], [token["content"] for token in added if not token["special"]])
    control_ids: dict[str, int] = {token["content"]: token["id"] for token in added}
    decoder = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    return ChatTokenizer(
        encode=encoder(backend, markup, control_ids),
        decode=lambda token_ids: str(decoder.decode(list(token_ids), skip_special_tokens=False)),
        render=_renderer(tokenizer),
        markup=markup,
        control_ids=control_ids,
        eos_id=tokenizer.eos_token_id,
        identity=tokenizer_hash(tokenizer),
    )


def tokenizer_facts(tokenizer: PreTrainedTokenizerFast, *, logits: int | None = None) -> TokenizerFacts:
    """Read off a tokenizer what `described` wants to know; `logits`: of its model, if known."""

    def token(value: object) -> str | None:
        return None if value is None else str(value)

    return TokenizerFacts(
        size=1 + max(tokenizer.get_vocab().values(), default=-1),  # ids may have been left out
        eos=token(tokenizer.eos_token),
        bos=token(tokenizer.bos_token),
        pad=token(tokenizer.pad_token),
        logits=logits,
        clock="strftime_now" in str(tokenizer.chat_template),
    )


def _renderer(tokenizer: PreTrainedTokenizerFast) -> Render:
    template = tokenizer.get_chat_template()
    copied = copy.copy(tokenizer)

    def render(messages: list[dict[str, Any]], tools: list[Any] | None, prompt: bool) -> str:
        try:
            text = copied.apply_chat_template(
                messages, tools=tools, chat_template=template, add_generation_prompt=prompt, tokenize=False
            )
        except Exception as error:  # a template is a program: it may raise anything
            words = " ".join(str(error).split())[:300]
            said = words if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: {words}"
            raise checks.fail(TemplateError, "messages", "be accepted by the chat template", said) from error
        return str(text)

    return render


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
