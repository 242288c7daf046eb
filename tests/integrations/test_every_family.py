"""Trainer, PEFT and content evidence in every Hugging Face family: what docs/guides/huggingface.md has in its table."""

import copy

import pytest
import torch

pytest.importorskip("transformers", minversion="5.22", reason="Hugging Face transformers 5.22 is not installed")

import transformers

from clock_attention.integrations.transformers import CrossClocks, use_clock_attention
from tests.integrations.tiny_models import FAMILIES, generated, lively

PROJECTIONS = {"t5": ["q", "v"], "bert2bert": ["query", "value"]}  # elsewhere q_proj and v_proj

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("name", FAMILIES)]


def model_with_clocks(name, **options):
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    found = FAMILIES[name]()
    use_clock_attention(lively(found.model), **options)
    return found


def clocks_of(model):
    return [module for module in model.modules() if isinstance(module, CrossClocks)]


def test_trainer_trains_saves_and_loads(name, tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not installed, which transformers' Trainer needs")
    found = model_with_clocks(name)
    items = [{**{n: v[i] for n, v in found.inputs.items()}, "labels": found.labels[i]} for i in (0, 1)] * 2
    arguments = transformers.Seq2SeqTrainingArguments(
        tmp_path, max_steps=2, per_device_train_batch_size=2, learning_rate=1e-2, save_steps=2, report_to=[],
        use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    transformers.Seq2SeqTrainer(found.model, arguments, train_dataset=items).train()
    loaded = type(found.model).from_pretrained(tmp_path / "checkpoint-2").eval()
    for mine, theirs in zip(clocks_of(found.model), clocks_of(loaded), strict=True):
        assert mine.log_scale.abs().sum() > 0
        assert torch.equal(mine.log_scale, theirs.log_scale)
    expected = generated(found.model.eval(), found.inputs)[0]
    assert torch.equal(generated(loaded, found.inputs)[0], expected)


def test_peft_trains_adapters_and_clocks(name, tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    found = model_with_clocks(name)
    base = copy.deepcopy(found.model)
    projections = PROJECTIONS.get(name, ["q_proj", "v_proj"])
    config = peft.LoraConfig(r=2, target_modules=projections, modules_to_save=["clocks"])
    model = peft.get_peft_model(found.model, config)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(2):  # an adapter's first gradient is in one of its two halves only
        optimizer.zero_grad()
        model(**found.inputs, labels=found.labels).loss.backward()
        optimizer.step()
    sharpness = [p for n, p in model.named_parameters() if p.requires_grad and "log_scale" in n]
    assert len(sharpness) == 2
    assert all(p.grad.abs().sum() > 0 for p in sharpness)
    model.save_pretrained(tmp_path)
    loaded = peft.PeftModel.from_pretrained(base, tmp_path).eval()
    with torch.no_grad():
        expected = model.eval()(**found.inputs, labels=found.labels).logits
        torch.testing.assert_close(loaded(**found.inputs, labels=found.labels).logits, expected)
    assert torch.equal(generated(loaded, found.inputs)[0], generated(loaded, found.inputs, use_cache=False)[0])


def test_content_steps_with_the_cache_as_without(name, tmp_path):
    found = model_with_clocks(name, pace=1.5, content=True, logit_scale=0.3)
    tokens, logits = generated(found.model, found.inputs)
    without, expected = generated(found.model, found.inputs, use_cache=False)
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)
    assert torch.equal(tokens, without)
    found.model.save_pretrained(tmp_path)
    loaded = type(found.model).from_pretrained(tmp_path).eval()
    assert all(clocks.content for clocks in clocks_of(loaded))
    assert torch.equal(generated(loaded, found.inputs)[0], tokens)
