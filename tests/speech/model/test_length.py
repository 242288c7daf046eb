"""The length model."""

from tests.speech.model.tiny_models import build, inputs


def test_without_a_length_the_length_model_decides_and_a_longer_text_is_longer():
    model = build(positions="normalized")
    tokens, lengths, *_ = inputs([(2, 1), (9, 1)])
    speech = model.synthesise(tokens, lengths)
    assert speech.frames.tolist() == [12, 54]  # untrained: the natural six frames a token


def test_the_length_model_learns_without_touching_the_encoder():
    model = build()
    memory = model.encode(*inputs([(5, 1), (3, 1)])[:2])
    model.length(memory.encoded, memory.padding).sum().backward()
    assert model.length.inner.weight.grad is not None
    assert all(p.grad is None for name, p in model.named_parameters() if not name.startswith("length."))
