"""`selected_logprobs` against log-softmax and gather, with every option, and what its two passes promise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed.fsdp
from cases_objective import DEVICE, raises, tensor
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DeviceError, DtypeError, GraphError, MaskError, RangeError, ShapeError
from rosellm.roserlhf.losses import KeptSupport, selected_logprobs
from rosellm.roserlhf.objective import kernel

call: Any = selected_logprobs  # its overloads want to know options that are parametrised here
N, D, V = 11, 5, 23  # 23 is no multiple of the 7 entries of a block, 11 none of the chunks 3 and 4


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "WIDTH", 7)


def inputs(dtype: torch.dtype = torch.float64, *, frozen: bool = False, seed: int = 0) -> dict[str, Any]:
    """Leaves for every tensor argument, a support that holds each target, and a mask."""
    generator = torch.Generator().manual_seed(seed)
    leaves = [torch.randn(*shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype) for shape in ((N, D), (V, D), (V,))]
    ids = torch.randint(0, V, (N,), generator=generator)
    kept = [None if n % 4 == 0 else sorted({int(ids[n]), 1, 20, n}) for n in range(N)]
    mask = torch.rand(N, generator=generator) > 0.4
    return {
        "hidden": leaves[0].requires_grad_(),
        "weight": leaves[1].requires_grad_(not frozen),
        "bias": leaves[2].requires_grad_(not frozen),
        "target_ids": ids.to(DEVICE),
        "support": KeptSupport.of(kept, device=DEVICE),
        "mask": mask.to(DEVICE),
    }


def obvious(given: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The whole `[N, V]` table of logits, one row after the other."""
    logits = given["hidden"] @ given["weight"].t()
    if given.get("bias") is not None:
        logits = logits + given["bias"]
    logits = logits * (given.get("scale") or 1.0)
    if (cap := given.get("softcap")) is not None:
        logits = cap * torch.tanh(logits / cap)
    logits = logits / given.get("temperature", 1.0)
    logprobs, entropies = [], []
    for n, row in enumerate(logits):
        if given.get("mask") is not None and not given["mask"][n]:
            logprobs.append(row.new_zeros(()))
            entropies.append(row.new_zeros(()))
            continue
        ids, target = torch.arange(V, device=row.device), given["target_ids"][n]
        if given.get("support") is not None:
            start, end = given["support"].offsets[n : n + 2].tolist()
            ids = given["support"].ids[start:end] if end > start else ids
        kept = row[ids].log_softmax(0)
        logprobs.append(kept[ids == target].squeeze())
        entropies.append(-(kept.exp() * kept).sum())
    return torch.stack(logprobs), torch.stack(entropies)


def leaves(given: dict[str, Any]) -> list[Tensor]:
    return [given[name] for name in ("hidden", "weight", "bias") if given.get(name) is not None and given[name].requires_grad]


def weighted(outputs: tuple[Tensor, ...]) -> Tensor:
    """A scalar in which every position has its own weight."""
    weights = torch.linspace(-1, 2, N, dtype=torch.float64, device=DEVICE)
    return torch.stack([(output * weights.roll(k)).sum() for k, output in enumerate(outputs)]).sum()


NAMES = ("bias", "temperature", "softcap", "scale", "support", "mask")
OPTIONS = [dict(zip(NAMES, values, strict=True)) for values in itertools.product((False, True), repeat=len(NAMES))]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(name for name, on in options.items() if on) or "plain")
def test_every_combination_of_options_is_log_softmax_and_gather(options: dict[str, bool]) -> None:
    values = {"temperature": 0.7, "softcap": 1.5, "scale": 0.6}
    for frozen, with_entropy, chunk in ((False, False, 4), (False, True, 100), (True, False, 100), (True, True, 4)):
        given = inputs(frozen=frozen)
        given = {name: value for name, value in given.items() if options.get(name, True)}
        given |= {name: value for name, value in values.items() if options[name]}
        found = call(**given, chunk=chunk, with_entropy=with_entropy)
        wanted = obvious(given)
        pairs = list(zip(found, wanted, strict=True)) if with_entropy else [(found, wanted[0])]
        for one, other in pairs:
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
        gradients = torch.autograd.grad(weighted(tuple(one for one, _ in pairs)), leaves(given))
        expected = torch.autograd.grad(weighted(tuple(other for _, other in pairs)), leaves(given))
        for one, other in zip(gradients, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("frozen", [False, True])
def test_gradcheck(frozen: bool) -> None:
    given = inputs(frozen=frozen)
    wanted = leaves(given)

    def run(*tensors: Tensor) -> Any:
        named = dict(zip(("hidden", "weight", "bias"), tensors, strict=False))
        how: dict[str, Any] = {"softcap": 1.5, "scale": 0.6, "temperature": 0.7, "chunk": 4, "with_entropy": not frozen}
        return call(**given | named, **how)

    assert torch.autograd.gradcheck(run, wanted)


def test_by_hand() -> None:
    # two entries of the vocabulary with logits h and 0; cap 2: 2 tanh(1 / 2) = 0.92423; over temperature 0.5: 1.84847
    hidden, weight = tensor([[1.0]]), tensor([[1.0], [0.0]])
    found = selected_logprobs(hidden, weight, tensor([0]), softcap=2.0, temperature=0.5)
    assert found.item() == pytest.approx(-math.log1p(math.exp(-2 * 2 * math.tanh(0.5))), abs=1e-12)
    # scale before the cap: 2 tanh(3 / 2)
    found = selected_logprobs(hidden, weight, tensor([0]), scale=3.0, softcap=2.0)
    assert found.item() == pytest.approx(-math.log1p(math.exp(-2 * math.tanh(1.5))), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_result_is_float32_whatever_the_chunk_and_gradients_have_the_dtype_of_their_inputs(dtype: torch.dtype) -> None:
    results, exact = [], obvious(inputs(dtype) | {name: inputs(dtype)[name].double() for name in ("hidden", "weight", "bias")})[0]
    for chunk in (1, 3, 11, 4096):
        given = inputs(dtype)
        found = selected_logprobs(**given, chunk=chunk)
        gradients = torch.autograd.grad(weighted((found,)), leaves(given))
        assert found.dtype == torch.float32
        assert [gradient.dtype for gradient in gradients] == [dtype] * 3
        results.append((found, *gradients))
    bound = 1e-6 if dtype == torch.float32 else 0.05
    assert (results[0][0].double() - exact).abs().max() < bound
    for result in results[1:]:
        assert (result[0] - results[0][0]).abs().max() <= 1e-6
        for one, other in zip(result[1:], results[0][1:], strict=True):
            assert (one.float() - other.float()).abs().max() <= (1e-6 if dtype == torch.float32 else 0.02) * other.abs().max()


def test_the_weight_gradient_is_summed_in_float32_over_chunks() -> None:
    # 4096 positions each give the first entry 1/2: bfloat16 would stop growing at 256 · 2^-8-sized steps, float32 does not
    hidden = torch.ones(4096, 1, dtype=torch.bfloat16)
    weight = torch.zeros(2, 1, dtype=torch.bfloat16, requires_grad=True)
    selected_logprobs(hidden, weight, torch.zeros(4096, dtype=torch.int64), chunk=1).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[2048.0], [-2048.0]]


def test_mixed_types_are_computed_in_the_wider_one() -> None:
    given = inputs()
    mixed = {**given, "hidden": given["hidden"].detach().bfloat16().requires_grad_(), "bias": None}
    found = selected_logprobs(**mixed)
    torch.testing.assert_close(found, obvious({**mixed, "hidden": mixed["hidden"].double()})[0], rtol=1e-12, atol=1e-12)
    at_hidden, at_weight = torch.autograd.grad(found.sum(), (mixed["hidden"], mixed["weight"]))
    assert (at_hidden.dtype, at_weight.dtype) == (torch.bfloat16, torch.float64)


def test_autocast_changes_nothing() -> None:
    given = inputs(torch.float32)
    plain = selected_logprobs(**given)
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        found = selected_logprobs(**given)
    assert torch.equal(found, plain)
    seen, wanted = (torch.autograd.grad(each.sum(), leaves(given)) for each in (found, plain))
    for one, other in zip(seen, wanted, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("poison", [math.nan, math.inf, 1e30])
def test_a_masked_position_is_not_computed(frozen: bool, poison: float) -> None:
    given = inputs(frozen=frozen)
    mask = given["mask"]
    hidden = given["hidden"].detach().masked_fill(~mask[:, None], poison).requires_grad_()
    ids = given["target_ids"].masked_fill(~mask, -100)
    found = selected_logprobs(**given | {"hidden": hidden, "target_ids": ids})
    wanted = selected_logprobs(**given)
    assert torch.equal(found, wanted)
    assert (found[~mask] == 0).all()
    clean = torch.autograd.grad(wanted.sum(), leaves(given))
    upstream = torch.ones_like(found).masked_fill(~mask, math.nan)
    for one, other in zip(torch.autograd.grad(found, [hidden, *leaves(given)[1:]], upstream), clean, strict=True):
        assert torch.equal(one, other)
    assert (clean[0][~mask] == 0).all()


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("nothing", ["no positions", "an empty mask"])
def test_nothing_to_compute_is_a_zero_in_the_graph(frozen: bool, nothing: str) -> None:
    given = inputs(frozen=frozen) | {"support": None}
    if nothing == "no positions":
        given |= {"hidden": torch.zeros(0, D, dtype=torch.float64, device=DEVICE, requires_grad=True), "mask": None}
        given["target_ids"] = given["target_ids"][:0]
    else:
        given["mask"] = torch.zeros_like(given["mask"])
    found = selected_logprobs(**given)
    assert found.sum() == 0
    for gradient, leaf in zip(torch.autograd.grad(found.sum(), leaves(given)), leaves(given), strict=True):
        assert gradient.shape == leaf.shape
        assert (gradient == 0).all()


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_logits_stay_finite(size: float) -> None:
    # logits are h · w: one entry at ±1e4, the others at 0, in different blocks
    weight = torch.zeros(V, 1, device=DEVICE).index_fill(0, tensor([20]), size).requires_grad_()
    hidden = torch.ones(2, 1, device=DEVICE, requires_grad=True)
    found, entropy = selected_logprobs(hidden, weight, tensor([20, 0]), with_entropy=True)
    wanted = [0.0, -1e4] if size > 0 else [-1e4 - math.log(V - 1), -math.log(V - 1)]
    assert found.tolist() == pytest.approx(wanted, rel=1e-6)
    assert entropy.tolist() == pytest.approx([0.0 if size > 0 else math.log(V - 1)] * 2, abs=1e-5)
    for gradient in torch.autograd.grad(found.sum() + entropy.sum(), (hidden, weight)):
        assert gradient.isfinite().all()


def test_leading_dimensions_are_kept() -> None:
    given = inputs() | {"support": None, "mask": None}
    flat = selected_logprobs(**given)
    hidden, ids = given["hidden"][:10].view(2, 5, D), given["target_ids"][:10].view(2, 5)
    torch.testing.assert_close(selected_logprobs(**given | {"hidden": hidden, "target_ids": ids}), flat[:10].view(2, 5))
    one = selected_logprobs(**given | {"hidden": given["hidden"][3], "target_ids": given["target_ids"][3]})
    torch.testing.assert_close(one, flat[3])


def test_entropy_carries_gradient_and_is_that_of_the_kept_support() -> None:
    # logits 0 and h over two entries: H' = -h p (1 - p) with p = sigmoid(h); a support of one entry has entropy 0
    hidden, weight = tensor([[0.5], [0.5]], grad=True), tensor([[0.0], [1.0], [9.0]])
    support = KeptSupport.of([[1, 0], [2]], device=DEVICE)
    logprobs, entropy = selected_logprobs(hidden, weight, tensor([0, 2]), support=support, with_entropy=True)
    p = 1 / (1 + math.exp(-0.5))
    assert entropy.tolist() == pytest.approx([-p * math.log(p) - (1 - p) * math.log(1 - p), 0.0], abs=1e-12)
    (at_hidden,) = torch.autograd.grad(entropy.sum(), hidden)
    assert at_hidden.flatten().tolist() == pytest.approx([-0.5 * p * (1 - p), 0.0], abs=1e-12)
    assert logprobs[1] == 0


def test_a_second_derivative_is_refused_when_it_is_asked_for() -> None:
    given = inputs()
    (at_hidden,) = torch.autograd.grad(selected_logprobs(**given).sum(), given["hidden"], create_graph=True)  # not yet
    with pytest.raises(GraphError, match="selected_logprobs must be differentiated once, got a second derivative; use"):
        at_hidden.sum().backward()
    given = inputs(frozen=True)
    found = selected_logprobs(**given)
    with pytest.raises(GraphError, match="differentiated once"):
        torch.autograd.grad(torch.autograd.grad(found.square().sum(), given["hidden"], create_graph=True)[0].sum(), given["hidden"])


@pytest.mark.parametrize("reentrant", [False, True])
def test_works_under_checkpoint(reentrant: bool) -> None:
    given = inputs()

    def run(hidden: Tensor) -> Any:
        return selected_logprobs(**given | {"hidden": hidden.tanh()})

    plain = torch.autograd.grad(run(given["hidden"]).sum(), given["hidden"])[0]
    kept: Tensor = checkpoint(run, given["hidden"], use_reentrant=reentrant)
    kept.sum().backward()
    assert torch.equal(given["hidden"].grad, plain)


def test_a_step_of_the_optimizer_is_seen() -> None:
    given = inputs()
    optimizer = torch.optim.SGD(leaves(given), lr=0.1)
    for _ in range(2):
        found = selected_logprobs(**given)
        torch.testing.assert_close(found, obvious(given)[0], rtol=1e-12, atol=1e-12)
        optimizer.zero_grad()
        found.sum().backward()
        optimizer.step()


@pytest.mark.parametrize("frozen", [False, True])
def test_weights_that_move_before_the_backward_pass_are_noticed(frozen: bool) -> None:
    given = inputs(frozen=frozen)
    found = selected_logprobs(**given)
    with torch.no_grad():
        given["weight"].add_(1.0)
    if frozen:  # the gradient was formed in the forward pass, with the weights of the forward pass
        other = inputs(frozen=True)
        wanted = torch.autograd.grad(selected_logprobs(**other).sum(), other["hidden"])
        assert torch.equal(torch.autograd.grad(found.sum(), given["hidden"])[0], wanted[0])
    else:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            found.sum().backward()


@pytest.mark.parametrize("frozen", [False, True])
def test_compiles_to_one_graph_forward_and_backward(frozen: bool) -> None:
    torch.compiler.reset()
    given = inputs(frozen=frozen)

    def run(hidden: Tensor) -> Any:
        return call(**given | {"hidden": hidden.tanh()}, softcap=1.5, with_entropy=not frozen)

    seen, wanted = torch.compile(run, fullgraph=True, backend="aot_eager")(given["hidden"]), run(given["hidden"])
    for one, other in zip(*((tuple(x) if isinstance(x, tuple) else (x,)) for x in (seen, wanted)), strict=True):
        assert torch.equal(one, other)
    total = [sum(part.sum() for part in (x if isinstance(x, tuple) else (x,))) for x in (seen, wanted)]
    for one, other in zip(*(torch.autograd.grad(loss, leaves(given)) for loss in total), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_no_gradient_is_prepared_where_none_can_be_asked_for() -> None:
    given = inputs(frozen=True)
    with torch.no_grad():
        found = selected_logprobs(**given)
    assert not found.requires_grad
    assert torch.equal(found, selected_logprobs(**given))


def test_a_bias_alone_may_be_trained() -> None:
    given = inputs(frozen=True)
    given["hidden"], given["bias"] = given["hidden"].detach(), given["bias"].requires_grad_()
    (found,) = torch.autograd.grad(selected_logprobs(**given).sum(), given["bias"])
    torch.testing.assert_close(found, torch.autograd.grad(obvious(given)[0].sum(), given["bias"])[0], rtol=1e-12, atol=1e-12)


BAD: list[tuple[type[Exception], str, Callable[[dict[str, Any]], dict[str, Any]]]] = [
    (DtypeError, "hidden must be a floating-point tensor", lambda g: {"hidden": g["hidden"].long()}),
    (DtypeError, "weight must be a torch.Tensor, got list", lambda g: {"weight": [[0.0]]}),
    (ShapeError, r"weight must be shaped \[V, 5\], got \(5, 23\)", lambda g: {"weight": g["weight"].t()}),
    (ShapeError, r"bias must be shaped \[23\], got \(22,\)", lambda g: {"bias": g["bias"][1:]}),
    (ShapeError, r"target_ids must have the shape of hidden .*\(11,\), got \(10,\)", lambda g: {"target_ids": g["target_ids"][1:]}),
    (DtypeError, "target_ids must be an integer tensor", lambda g: {"target_ids": g["target_ids"].float()}),
    (RangeError, r"target_ids must be in \[0, 23\).*, got the value 27 at \[0\]", lambda g: {"target_ids": g["target_ids"] + 10}),
    (RangeError, r"temperature must be in \(0, inf\), got 0.0", lambda g: {"temperature": 0.0}),
    (RangeError, r"softcap must be in \(0, inf\), got -1.0", lambda g: {"softcap": -1.0}),
    (RangeError, r"scale must be in \(0, inf\), got 0.0", lambda g: {"scale": 0.0}),
    (RangeError, r"chunk must be at least 1, got 0", lambda g: {"chunk": 0}),
    (DtypeError, r"chunk must be a whole number of at least 1, got 2.5 \(float\)", lambda g: {"chunk": 2.5}),
    (DtypeError, "with_entropy must be True or False", lambda g: {"with_entropy": 1}),
    (MaskError, "mask must be boolean or exactly 0/1, got the value 2.0", lambda g: {"mask": g["target_ids"] * 0 + 2.0}),
    (ShapeError, r"mask must have the shape of target_ids \(11,\)", lambda g: {"mask": g["target_ids"][1:] == 0}),
    (RangeError, "target_ids must be in their support, got the value", lambda g: {"support": KeptSupport.of([[0]] * N)}),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "change"), BAD)
def test_what_does_not_fit_is_an_error(error: type[Exception], message: str, change: Callable[..., dict[str, Any]]) -> None:
    given = inputs() | {"support": None, "mask": None}
    with raises(error, match=message):
        selected_logprobs(**given | change(given))


@pytest.fixture
def mesh() -> Iterator[Any]:
    """A group of one process, which shards as many do."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        yield torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    finally:
        torch.distributed.destroy_process_group()


class Scorer(nn.Module):
    """A model that calls `selected_logprobs` in its own forward, where FSDP has gathered the weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(D, D), nn.Linear(D, V)

    def forward(self, hidden: Tensor, ids: Tensor) -> Tensor:
        return selected_logprobs(self.body(hidden), self.head.weight, ids, bias=self.head.bias)


@pytest.mark.skipif(DEVICE.type != "cpu" or not hasattr(torch.distributed.fsdp, "fully_shard"), reason="needs FSDP2 and gloo")
def test_a_sharded_weight_works_inside_the_forward_and_is_refused_outside(mesh: Any) -> None:
    sharded, whole, hidden, ids = Scorer(), Scorer(), torch.randn(3, D), torch.tensor([1, 20, 3])
    torch.distributed.fsdp.fully_shard(sharded, mesh=mesh)
    for model in (sharded, whole):
        model(hidden, ids).sum().backward()
    for one, other in zip(sharded.parameters(), whole.parameters(), strict=True):
        assert torch.equal(one.grad.full_tensor(), other.grad)  # type: ignore[union-attr, arg-type]
    sharded.reshard()  # type: ignore[operator]
    message = r"weight must be a whole, local tensor, got a DTensor; call this inside .* or pass weight.full_tensor\(\)"
    with pytest.raises(DtypeError, match=message):
        selected_logprobs(hidden, sharded.head.weight, ids)


def test_devices_must_agree_and_a_bad_id_on_an_accelerator_is_deferred() -> None:
    given = inputs() | {"support": None, "mask": None}
    with pytest.raises(DeviceError, match="weight must be on the device of hidden"):
        selected_logprobs(**given | {"weight": given["weight"].to("meta")})
    without_data: dict[str, Any] = {name: None if part is None else part.detach().to("meta") for name, part in given.items()}
    assert selected_logprobs(**without_data).shape == (N,)
    checks._deferred.clear()
