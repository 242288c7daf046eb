"""The operator behind impl="banded": what it refuses, how torch sees it, and which layouts it reads."""

import pytest
import torch

from clock_attention import clock_attention
from clock_attention.kernels.banded import op
from clock_attention.kernels.banded.clocks import GIVEN

from ..attention_cases import content_of, features, padding

BANDED = {"impl": "banded"}


def scales(heads: int) -> torch.Tensor:
    return torch.linspace(0.5, 2.0, heads)


def test_layouts_are_read_as_they_are():
    """Heads split from a projection, expanded values, and channels that are not contiguous."""
    query, key, value = features((2, 3, 40, 21, 16, 16), 8, torch.float32)
    expected, _ = clock_attention(query, key, value, **BANDED)
    split = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (query, key, value)]
    assert torch.equal(clock_attention(*split, **BANDED)[0], expected)
    strided = [x.mT.contiguous().mT for x in (query, key, value)]
    assert torch.equal(clock_attention(*strided, **BANDED)[0], expected)
    shared = value[:, :1].expand(-1, 3, -1, -1)
    assert torch.equal(
        clock_attention(query, key, shared, **BANDED)[0], clock_attention(query, key, shared.clone(), **BANDED)[0]
    )
    joined = expected.transpose(1, 2)
    assert joined.is_contiguous()  # joining the heads afterwards copies nothing


def operator_arguments(given: bool) -> tuple:
    shape = (2, 2, 20, 9, 5, 3)
    query, key, value = (x.requires_grad_() for x in features(shape, 13, torch.float32))
    content = [x.requires_grad_() for x in content_of("features", shape, 13, torch.float32)]
    scale = scales(2).requires_grad_()
    valid = (~padding(2, 20, 1), ~padding(2, 9, 2))
    if not given:
        return query, key, value, None, None, None, None, *valid, scale, 0, 0, 0, False, 1e-6
    clocks = [torch.rand_like(x, dtype=torch.float64).cumsum(2).requires_grad_() for x in (query, key)]
    variances = [torch.rand(2, 2, n).add(0.1).requires_grad_() for n in (20, 9)]
    return *clocks, value, *variances, *content, *valid, scale, GIVEN, GIVEN, 0, True, 1e-6


@pytest.mark.parametrize("given", [False, True])
def test_wrong_operands_raise_instead_of_reading_past_their_end(given):
    """The compiled code sees addresses only: whatever does not fit must be refused before."""
    usual = (*operator_arguments(given), True)
    with torch.no_grad():
        torch.ops.clock_attention.banded(*usual)
        for place, operand in enumerate(usual[:10]):
            if operand is None:
                continue
            for wrong in (operand[:1], operand[..., :1], operand[None], operand.to(torch.int32), operand[..., :0]):
                changed = (*usual[:place], wrong, *usual[place + 1 :])
                if wrong.shape == operand.shape and wrong.dtype == operand.dtype:
                    continue
                if (
                    place == 2
                    and wrong.shape[:3] == operand.shape[:3]
                    and wrong.shape[3]
                    and wrong.dtype == operand.dtype
                ):
                    continue  # values of another width are values
                with pytest.raises((ValueError, RuntimeError)):
                    torch.ops.clock_attention.banded(*changed)
        for place, wrong in ((10, 7), (11, 0 if given else GIVEN), (12, 3)):
            with pytest.raises(ValueError, match="do not exist"):
                torch.ops.clock_attention.banded(*usual[:place], wrong, *usual[place + 1 :])


def test_weights_that_were_not_asked_for_may_be_part_of_a_loss():
    """They have no elements; torch's compiler sums all outputs of an operator."""
    arguments = operator_arguments(False)
    out, *_, weights = torch.ops.clock_attention.banded(*arguments, False)
    expected = torch.autograd.grad(out.sum(), arguments[:3], retain_graph=True)
    for ours, theirs in zip(torch.autograd.grad(out.sum() + weights.sum(), arguments[:3]), expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("return_weights", [False, True])
def test_the_operator_is_registered_correctly(given, return_weights):
    torch.library.opcheck(op.banded, (*operator_arguments(given), return_weights))


@pytest.mark.slow
def test_gradients_in_fp64_by_finite_differences():
    query, key, value = (x.requires_grad_() for x in features((1, 2, 11, 6, 3, 2), 14))
    scale = scales(2).double().requires_grad_()
    for options in ({}, {"clocks": "causal", "pace": 2.0}, {"clocks": "unnormalized"}, {"variance": "exact"}):
        assert torch.autograd.gradcheck(
            lambda q, k, v, s, options=options: clock_attention(q, k, v, logit_scale=s, **options, **BANDED),
            (query, key, value, scale),
        )


@pytest.mark.parametrize("options", [{}, {"clocks": "causal", "pace": 2.0}, {"clocks": "unnormalized", "phi": "exp"}])
def test_compiles_as_one_graph(options):
    def loss(query, key, value, padded):
        output, _ = clock_attention(query, key, value, padded, return_weights=False, **options)
        return (output * output).sum()

    inputs = [x.requires_grad_() for x in features((2, 2, 20, 9, 8, 8), 15, torch.float32)]
    padded = padding(2, 20, 3)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for a, b in zip(
        torch.autograd.grad(compiled(*inputs, padded), inputs),
        torch.autograd.grad(loss(*inputs, padded), inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_second_derivatives_are_refused_with_a_way_out():
    query, key, value = (x.requires_grad_() for x in features((1, 2, 5, 4, 8, 8), 0, torch.float32))
    output, _ = clock_attention(query, key, value, **BANDED)
    (first,) = torch.autograd.grad(output.square().sum(), query, create_graph=True)
    with pytest.raises(NotImplementedError, match="impl='portable'"):
        first.sum().backward()


def test_empty_batch():
    query, key, value = (x[:0] for x in features((1, 2, 6, 5, 4, 3), 17, torch.float32))
    output, weights = clock_attention(query, key, value, **BANDED)
    assert output.shape == (0, 2, 6, 3)
    assert weights.shape == (0, 2, 6, 5)
