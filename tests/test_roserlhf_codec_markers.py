"""The chat format: rendering, extending without tokenising twice, and replies that were cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout_fakes import Echo, FakeEngine, chunk, ids_before_each_action, play, turn_of

from rosellm.roserlhf.batching.rows import row_of
from rosellm.roserlhf.codec.markers import CUT, MarkerCodec
from rosellm.roserlhf.codec.protocol import Spans
from rosellm.roserlhf.engine.protocol import Chunk, Request
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.trajectory import Message, ParsedAction, ParseFailure, Trajectory

WORDS = ["<end>", "<user>", "<assistant>", "<tool>", "he", "llo", "hello", " "]
"""A vocabulary in which `hello` can be written in two ways; encoding takes the longest piece, as merges do."""
CONTROL = {0, 1, 2, 3}


class Counting:
    """Encodes longest piece first, unknown characters above the vocabulary, and counts what it is given."""

    def __init__(self) -> None:
        self.characters = 0

    def __call__(self, text: str) -> list[int]:
        self.characters += len(text)
        ids = []
        while text:
            piece = max((w for w in WORDS[4:] if text.startswith(w)), key=len, default=text[0])
            ids.append(WORDS.index(piece) if piece in WORDS else 100 + ord(piece))
            text = text[len(piece) :]
        return ids


def toy(encode: Any = None, tools: Sequence[Any] = ()) -> MarkerCodec:
    return MarkerCodec(
        encode=encode or Counting(),
        decode=lambda ids: "".join(WORDS[i] if i < 100 else chr(i - 100) for i in ids),
        markers={"user": 1, "assistant": 2, "tool": 3},
        end_id=0,
        tools=tools,
        tokenizer_hash="toy",
    )


def flat(spans: Spans) -> list[int]:
    return [i for span in spans for i in span.token_ids]


HE, LLO, HELLO = 4, 5, 6


def test_a_message_is_marker_body_end_and_only_the_body_is_content() -> None:
    spans = toy().render([Message("user", "hello he"), Message("tool", "")])
    assert [(list(span.token_ids), span.role, span.content_mask, span.policy) for span in spans] == [
        ([1, HELLO, 7, HE, 0], "user", (False, True, True, True, False), False),
        ([3, 0], "tool", (False, False), False),
        ([2], "assistant", (False,), False),
    ]


def test_extending_looks_at_the_end_of_the_reply_only() -> None:
    codec = toy()
    new = [Message("tool", "he")]
    assert flat(codec.extend([1, HELLO, 0, 2, HE, 0], [], new)) == [3, HE, 0, 2]  # the policy ended its turn
    assert flat(codec.extend([1, HELLO, 0, 2, HE], [], new)) == [0, 3, HE, 0, 2]  # a budget did: the end marker is glue
    assert codec.extend([HE], [], new)[0].content_mask == (False,)


def test_a_scripted_reply_is_text_and_end_marker() -> None:
    assert toy().reply("hello") == (HELLO, 0)


def conversation(replies: Sequence[Sequence[int]], observations: Sequence[str]) -> tuple[FakeEngine, Trajectory]:
    """Play an episode in which the policy samples exactly these ids."""

    def speak(request: Request) -> list[Chunk]:
        return [chunk(replies[turn_of(request)])]

    engine = FakeEngine(speak)
    return engine, play(Echo(prompt="hello", replies=observations), engine, codec=toy(), max_turns=len(replies))


def test_R07_what_was_sampled_is_never_tokenised_again() -> None:
    engine, episode = conversation([[HE, LLO, 0], [HE, 0]], ["hello", "he"])
    first, second = (list(request.prompt_ids) for request in engine.requests)
    assert second[: len(first) + 3] == [*first, HE, LLO, 0]
    assert second == [*first, HE, LLO, 0, 3, HELLO, 0, 2]
    assert (episode.actions[0].token_ids, len(episode.actions[0].old_logprobs)) == ((HE, LLO, 0), 3)
    row = row_of(episode)
    sampled = [token for token, mask in zip(row.token_ids, row.policy_mask, strict=True) if mask]
    assert HELLO not in sampled  # although the text of the reply, tokenised, would be exactly that
    assert toy().reply(toy().text([HE, LLO])) == (HELLO, 0)


def test_R08_history_is_never_rewritten() -> None:
    # a template that drops thoughts of earlier turns would make turn 2 another conversation than the one that goes on
    thought = Counting()("<t>abc</t>ok")
    engine, episode = conversation([[*thought, 0], [HE, 0]], ["again", "he"])
    first, second = (list(request.prompt_ids) for request in engine.requests)
    assert second == [*first, *thought, 0, *toy().render([Message("tool", "again")])[0].token_ids, 2]
    assert "again" in toy().text(second)
    assert row_of(episode).trained == len(thought) + 1 + 2  # every sampled token once
    assert episode.failure is None


def test_R09_what_stands_between_turns_is_what_the_format_says() -> None:
    # the ids of turn 2 are those of the whole conversation rendered at once: nothing between reply and next message is lost
    engine, episode = conversation([[HELLO, 0], [HE, 0]], ["he", "he"])
    whole = toy().render([Message("user", "hello"), Message("assistant", "hello"), Message("tool", "he")])
    assert list(engine.requests[1].prompt_ids) == flat(whole)
    row = row_of(episode)
    masked = [(toy().text([token]), mask) for token, mask in zip(row.token_ids, row.policy_mask, strict=True)][3:]
    assert masked[:3] == [("<assistant>", False), ("hello", True), ("<end>", True)]
    assert masked[3:] == [("<tool>", False), ("he", False), ("<end>", False), ("<assistant>", False), ("he", True), ("<end>", True)]


def test_R72_each_turn_encodes_its_own_message_only() -> None:
    characters = {}
    for turns in (100, 200, 400):
        encode = Counting()
        codec = toy(encode)
        # every observation is another text, so that nothing is saved by remembering one
        replies = [f"observation {turn:03}" for turn in range(turns)]
        engine = FakeEngine(lambda request, codec=codec: [chunk([HE, 0])])  # type: ignore[misc]
        episode = play(Echo(replies=replies), engine, codec=codec, max_turns=turns, context_window=10**6)
        characters[turns] = encode.characters
        before, _ = ids_before_each_action(episode)
        assert [list(request.prompt_ids) for request in engine.requests] == before
    assert characters == {turns: len("abcdefg") + turns * len("observation 000") for turns in (100, 200, 400)}


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "tool"]), st.text(st.sampled_from("<>endusrhlo/ "), max_size=12)), max_size=4),
    st.lists(st.sampled_from([HE, LLO, HELLO, 7]), max_size=6),
    st.booleans(),
)
def test_extending_only_appends_and_text_never_becomes_control(
    messages: list[tuple[str, str]], reply: list[int], ended: bool
) -> None:
    codec = toy()
    given_ = [Message(role, text) for role, text in messages]
    prompt = flat(codec.render(given_))
    context = [*prompt, *reply, *([0] if ended else [])]
    before = list(context)
    added = flat(codec.extend(context, [], given_))
    assert context == before
    assert added == ([] if ended and context else [0] if context[-1] != 0 else []) + prompt
    # markers are exactly those of the format: one pair for each message and the open turn
    markers = [i for i in prompt if i in CONTROL]
    assert markers == [i for role, _ in messages for i in ({"user": 1, "tool": 3}[role], 0)] + [2]


def test_a_reply_that_was_cut_is_told_so_and_not_called_malformed() -> None:
    for ids in ([], [HE], [HE, LLO, 2]):
        assert toy().parse(ids) == ParseFailure(CUT, raw=toy().text(ids), cut=True)
    malformed = toy().parse([HE, 0])
    assert isinstance(malformed, ParseFailure)
    assert not malformed.cut


def test_control_ids_that_the_policy_samples_stay_its_own_words() -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    codec = toy(tools=[{"type": "function", "function": {"name": "say", "description": "", "parameters": schema}}])
    ids = [*Counting()("say("), 1, HE, 3, *Counting()(")"), 0]
    parsed = codec.parse(ids)
    assert isinstance(parsed, ParsedAction)
    said = parsed.calls[0].arguments["word"]
    assert said == "<user>he<tool>"
    # shown again, it is text: characters that are no markers
    assert CONTROL & set(flat(codec.render([Message("tool", said)])[:1])[1:-1]) == set()


def test_a_role_without_a_marker_is_refused() -> None:
    with pytest.raises(RangeError, match=r"message\.role must be one of user, assistant, tool, got 'wizard'"):
        toy().render([Message("wizard", "he")])


def test_a_format_needs_an_assistant() -> None:
    with pytest.raises(RangeError, match="markers must hold assistant, got user"):
        MarkerCodec(encode=list, decode=str, markers={"user": 1}, end_id=0, tools=[], tokenizer_hash="")  # type: ignore[arg-type]


def test_lengths_differ_by_turn_not_by_history() -> None:
    engine, _ = conversation([[HE, 0]] * 5, ["he"] * 5)
    lengths = [len(request.prompt_ids) for request in engine.requests]
    assert {after - before for before, after in pairwise(lengths)} == {
        2 + 4
    }  # reply he <end>, observation <tool> he <end> <assistant>
