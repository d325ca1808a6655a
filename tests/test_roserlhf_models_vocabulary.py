"""Padded vocabularies: ids that stand for no text are neither sampled nor learnt."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from loop_models import ask, full_logprobs, request, tiny_model
from transformers import LlamaForCausalLM

from rosellm.roserlhf.batching.rows import row_of
from rosellm.roserlhf.batching.tensors import pad
from rosellm.roserlhf.engine.local import LocalEngine
from rosellm.roserlhf.errors import RangeError
from rosellm.roserlhf.losses import policy_logprobs
from rosellm.roserlhf.models.causal import export_model
from rosellm.roserlhf.models.vocabulary import narrow_logits, spoken_ids
from rosellm.roserlhf.trajectory import PolicyAction, TokenSpan, Trajectory, TransitionRecord


def padded(count: int = 7) -> LlamaForCausalLM:
    """A model of 11 outputs and a tokenizer of `count` ids; the rows beyond are the loudest."""
    model = tiny_model(layers=2)
    with torch.no_grad():
        model.lm_head.weight[count:] *= 3
    narrow_logits(model, count)
    return model


def test_ids_beyond_the_tokenizer_are_never_sampled_and_the_learner_agrees() -> None:
    model = padded()
    engine = LocalEngine(model, version="v0", threads=1)
    requests = [request((n % 7, 3), n, max_tokens=10) for n in range(40)]
    chunks = ask(engine, requests)
    assert max(max(chunk.token_ids) for chunk in chunks) == 6
    assert all(chunk.support is None for chunk in chunks)  # nothing but log-probabilities is recorded
    for asked, chunk in zip(requests, chunks, strict=True):
        action = PolicyAction(0, chunk.token_ids, chunk.logprobs, "v0", "")
        end = TransitionRecord(0, None, {"r": 1.0}, terminated=True)
        row = row_of(Trajectory("t", "task", "e", "tok", [action], [end], prompt=[TokenSpan(asked.prompt_ids, "user")]))
        batch = pad([row])
        current = policy_logprobs(model, batch.input_ids, temperature=1.0)
        assert (current - batch.behaviour_logprobs)[batch.policy_mask].abs().max() < 1e-4
        assert current.exp().max() <= 1
    with pytest.raises(RangeError, match=r"prompt_ids must be in \[0, 7\), got 7"):
        ask(engine, [request((1, 7))])
    engine.close()


def test_every_reader_of_the_model_sees_the_same_ids(tmp_path: Path) -> None:
    model = padded()
    whole = copy.deepcopy(model)
    whole.lm_head._forward_hooks.clear()
    ids = torch.tensor([[1, 2, 3]])
    assert (spoken_ids(model), spoken_ids(copy.deepcopy(model)), spoken_ids(whole)) == (7, 7, 11)
    assert torch.equal(model(ids).logits, whole(ids).logits[..., :7])
    said = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8, pad_token_id=0)
    assert int(said.max()) < 7
    # its weights stay whole, so another program reads the model that it was
    export_model(model, tmp_path)
    assert torch.equal(LlamaForCausalLM.from_pretrained(tmp_path)(ids).logits, whole(ids).logits)
    model(ids).logits.logsumexp(-1).sum().backward()
    gradient = model.lm_head.weight.grad
    assert gradient is not None
    assert gradient[7:].abs().max() == 0


def test_an_engine_may_be_narrower_still() -> None:
    engine = LocalEngine(padded(), version="v0", threads=1, vocabulary=3)
    chunks = ask(engine, [request((n % 3,), n, max_tokens=6) for n in range(20)])
    engine.close()
    assert {i for chunk in chunks for i in chunk.token_ids} == {0, 1, 2}
    logits = full_logprobs(padded(3), (0, *chunks[0].token_ids))
    assert torch.allclose(torch.tensor(chunks[0].logprobs, dtype=torch.float64), logits, atol=1e-4)


@pytest.mark.parametrize("count", [0, 12])
def test_a_vocabulary_that_is_none_is_refused(count: int) -> None:
    with pytest.raises(RangeError, match=rf"count must be in \[1, 11\], got {count}"):
        narrow_logits(tiny_model(), count)
    with pytest.raises(RangeError, match=rf"vocabulary must be in \[1, 11\], got {count}"):
        LocalEngine(tiny_model(), version="v0", vocabulary=count)


def test_a_vocabulary_that_is_whole_needs_no_hook() -> None:
    model = tiny_model()
    narrow_logits(model, 11)
    assert not model.lm_head._forward_hooks
