"""Clock attention in tiny random models of every Hugging Face family it serves."""

import copy

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", minversion="5.22", reason="Hugging Face transformers 5.22 is not installed")

import transformers

from clock_attention.integrations import transformers as integration
from clock_attention.integrations.transformers import CrossClocks, set_pace, use_clock_attention
from tests.integrations import tiny_models
from tests.integrations.tiny_models import FAMILIES, OTHERS, generated, lively


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    found = FAMILIES[request.param]()
    use_clock_attention(lively(found.model), pace=1.5)
    found.name = request.param
    return found


def clocks_of(model):
    return [module for module in model.modules() if isinstance(module, CrossClocks)]


def test_every_cross_attention_trains_and_keeps_its_names(family):
    before = set(FAMILIES[family.name]().model.state_dict())
    added = set(family.model.state_dict()) - before
    assert before <= set(family.model.state_dict())
    assert {name.rpartition(".")[2] for name in added} == {"log_scale", "pace"}
    model = copy.deepcopy(family.model).train()
    model(**family.inputs, labels=family.labels).loss.backward()
    assert len(clocks_of(model)) == 2
    for clocks in clocks_of(model):
        assert clocks.log_scale.grad.abs().sum() > 0


def test_no_target_step_sees_a_later_one(family):
    labels = family.labels.clone()
    with torch.no_grad():
        first = family.model(**family.inputs, labels=labels).logits
        labels[:, 3:] = labels[:, 3:].flip(1)
        second = family.model(**family.inputs, labels=labels).logits
    seen = 3 if family.name != "musicgen" else 2  # its second codebook runs a step behind
    torch.testing.assert_close(first[:, :seen], second[:, :seen])
    assert not torch.allclose(first, second)


def test_attentions_are_the_clocks_weights(family):
    model = copy.deepcopy(family.model)
    set_pace(model, 0.2)  # through the whole source in these few steps
    with torch.no_grad():
        crossed = model(**family.inputs, labels=family.labels, output_attentions=True).cross_attentions
    assert len(crossed) == 2
    for weights in crossed:
        assert weights.shape[:3] == (2, 2, 6)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 6))
    if "attention_mask" in family.inputs:
        assert (weights[1, ..., -1] == 0).all()
        assert (weights[0, ..., -1] > 0).any()


def test_generation_with_the_cache_equals_generation_without(family):
    with_cache, logits = generated(family.model, family.inputs)
    without, expected = generated(family.model, family.inputs, use_cache=False)
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)
    assert torch.equal(with_cache, without)


def test_beam_search_moves_the_clocks_with_the_beams(family):
    if family.name == "musicgen":
        pytest.skip("Musicgen has no beam search")
    options = {"num_beams": 4, "num_return_sequences": 2}
    with_cache, _ = generated(family.model, family.inputs, **options)
    without, _ = generated(family.model, family.inputs, use_cache=False, **options)
    assert torch.equal(with_cache, without)


def test_saving_and_loading_keeps_clocks_and_what_they_learned(family, tmp_path):
    model = copy.deepcopy(family.model)
    for index, clocks in enumerate(clocks_of(model)):
        torch.nn.init.constant_(clocks.log_scale, 0.3 + index)
    set_pace(model, 0.8)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert [clocks.pace.item() for clocks in clocks_of(loaded)] == pytest.approx([0.8, 0.8])
    with torch.no_grad():
        expected = model(**family.inputs, labels=family.labels).logits
        assert torch.equal(loaded(**family.inputs, labels=family.labels).logits, expected)
        changed = family.model(**family.inputs, labels=family.labels).logits
    assert not torch.allclose(expected, changed)
    assert torch.equal(generated(loaded, family.inputs)[0], generated(model, family.inputs)[0])


def test_gradient_checkpointing_gives_the_same_gradients(family):
    plain, checkpointed = copy.deepcopy(family.model).train(), copy.deepcopy(family.model).train()
    for model in (plain, checkpointed):
        for module in model.modules():  # the same without luck
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            for name in ("dropout", "attention_dropout", "activation_dropout", "layerdrop"):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)
    checkpointed.gradient_checkpointing_enable()
    for model in (plain, checkpointed):
        torch.manual_seed(0)
        model(**family.inputs, labels=family.labels).loss.backward()
    for expected, got in zip(clocks_of(plain), clocks_of(checkpointed), strict=True):
        assert got.log_scale.grad.abs().sum() > 0
        torch.testing.assert_close(got.log_scale.grad, expected.log_scale.grad, rtol=1e-4, atol=1e-6)


def test_the_rest_of_the_model_may_be_eager(marian):
    with torch.no_grad():
        expected = marian.model(**marian.inputs, labels=marian.labels).logits
        marian.model.set_attn_implementation("eager")
        out = marian.model(**marian.inputs, labels=marian.labels, output_attentions=True)
    torch.testing.assert_close(out.logits, expected, rtol=1e-4, atol=1e-4)
    assert len(out.decoder_attentions) == len(out.cross_attentions) == 2


def test_moonshines_widened_heads_do_not_tick():
    torch.manual_seed(0)
    narrow = tiny_models.moonshine()
    use_clock_attention(lively(narrow.model))
    config = copy.deepcopy(narrow.model.config)
    config.pad_head_dim_to_multiple_of = 12
    wide = type(narrow.model)(config).eval()
    wide.load_state_dict(narrow.model.state_dict())
    with torch.no_grad():
        expected = narrow.model(**narrow.inputs, labels=narrow.labels).logits
        torch.testing.assert_close(wide(**narrow.inputs, labels=narrow.labels).logits, expected, rtol=1e-4, atol=1e-4)


def test_musicgen_generates_with_guidance():
    torch.manual_seed(0)
    found = tiny_models.musicgen()
    use_clock_attention(lively(found.model))
    with_cache, _ = generated(found.model, found.inputs, guidance_scale=3.0)
    without, _ = generated(found.model, found.inputs, guidance_scale=3.0, use_cache=False)
    torch.testing.assert_close(with_cache, without)


def test_a_checkpoint_without_clocks_gets_new_ones(tmp_path):
    plain = tiny_models.marian().model
    plain.save_pretrained(tmp_path)
    config = transformers.MarianConfig.from_pretrained(tmp_path)
    config.clock_attention = {"pace": 2.0}
    loaded = transformers.MarianMTModel.from_pretrained(tmp_path, config=config)
    for clocks in clocks_of(loaded):
        assert clocks.pace.item() == 2.0
        assert clocks.log_scale.tolist() == [0.0, 0.0]


def test_trainer_trains_saves_and_loads(tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not installed, which transformers' Trainer needs")
    torch.manual_seed(0)
    found = tiny_models.marian()
    use_clock_attention(found.model, pace=1.5)
    items = [{**{n: v[i] for n, v in found.inputs.items()}, "labels": found.labels[i]} for i in (0, 1)] * 4
    arguments = transformers.Seq2SeqTrainingArguments(
        tmp_path, max_steps=3, per_device_train_batch_size=2, learning_rate=1e-2, save_steps=3, report_to=[],
        use_cpu=True, disable_tqdm=True, predict_with_generate=True, generation_max_length=8, logging_steps=1,
        dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = transformers.Seq2SeqTrainer(found.model, arguments, train_dataset=items, eval_dataset=items[:2])
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]
    assert trainer.predict(items[:2]).predictions.shape[0] == 2
    loaded = transformers.MarianMTModel.from_pretrained(tmp_path / "checkpoint-3")
    for mine, theirs in zip(clocks_of(found.model), clocks_of(loaded), strict=True):
        assert mine.log_scale.abs().sum() > 0
        assert torch.equal(mine.log_scale, theirs.log_scale)


def test_peft_trains_adapters_and_clocks(tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    torch.manual_seed(0)
    found = tiny_models.marian()
    use_clock_attention(lively(found.model))
    base = copy.deepcopy(found.model)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], modules_to_save=["clocks"])
    model = peft.get_peft_model(found.model, config)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    for _ in range(2):  # an adapter's first gradient is in one of its two halves only
        optimizer.zero_grad()
        model(**found.inputs, labels=found.labels).loss.backward()
        optimizer.step()
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert any("encoder_attn.q_proj.lora_A" in name for name in trained)
    assert all(p.grad.abs().sum() > 0 for name, p in trained.items() if "log_scale" in name)
    model.save_pretrained(tmp_path)
    loaded = peft.PeftModel.from_pretrained(base, tmp_path).eval()
    model.eval()
    with torch.no_grad():
        expected = model(**found.inputs, labels=found.labels).logits
        torch.testing.assert_close(loaded(**found.inputs, labels=found.labels).logits, expected)
    assert torch.equal(generated(loaded, found.inputs)[0], generated(loaded, found.inputs, use_cache=False)[0])


@pytest.mark.parametrize("name", OTHERS)
def test_other_families_train_generate_and_load(name, tmp_path):
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    found = OTHERS[name]()
    model = use_clock_attention(lively(found.model), pace=1.5)
    model(**found.inputs, labels=found.labels).loss.backward()
    assert [clocks.log_scale.grad.abs().sum() > 0 for clocks in clocks_of(model)] == [True, True]
    later = found.labels.clone()
    later[:, 3:-1] = later[:, 3:-1].flip(1)  # the last one is the language in some, and comes first
    with torch.no_grad():
        out = model(**found.inputs, labels=found.labels, output_attentions=True)
        changed = model(**found.inputs, labels=later).logits
    torch.testing.assert_close(changed[:, :3], out.logits[:, :3])
    assert [weights.shape[:3] for weights in out.cross_attentions] == [(2, 2, 6)] * 2
    for options in ({}, {"num_beams": 3}):
        tokens, _ = generated(model, found.inputs, **options)
        assert torch.equal(generated(model, found.inputs, use_cache=False, **options)[0], tokens)
    model.save_pretrained(tmp_path)
    assert torch.equal(generated(type(model).from_pretrained(tmp_path), found.inputs, num_beams=3)[0], tokens)


def test_queries_without_an_order_are_refused():
    backbone = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], out_features=["stage2"])
    detector = transformers.DetrForObjectDetection(
        transformers.DetrConfig(
            use_timm_backbone=False, backbone=None, backbone_config=backbone, d_model=16, encoder_layers=1,
            decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, num_queries=5,
        )
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"\(DetrCrossAttention\): its forward takes no cache, so its queries are not"):
        use_clock_attention(detector)


def test_families_that_attend_by_themselves_are_refused_with_the_reason():
    led = transformers.LEDForConditionalGeneration(
        transformers.LEDConfig(
            vocab_size=30, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, attention_window=4,
            max_encoder_position_embeddings=32, max_decoder_position_embeddings=32,
        )
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"encoder_attn \(LEDDecoderAttention\): it computes its attention by itself"):
        use_clock_attention(led)
    assert not clocks_of(led)
    fsmt = transformers.FSMTForConditionalGeneration(
        transformers.FSMTConfig(
            langs=["en", "de"], src_vocab_size=30, tgt_vocab_size=30, d_model=16, encoder_layers=1, decoder_layers=1,
            encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
            max_position_embeddings=32,
        )
    )  # fmt: skip
    decoder = transformers.TrOCRForCausalLM(
        transformers.TrOCRConfig(
            vocab_size=30, d_model=16, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=16,
            max_position_embeddings=32, is_decoder=True, add_cross_attention=True,
        )
    )  # fmt: skip
    prophet = tiny_models.from_config(
        "ProphetNet", hidden_size=16, num_encoder_layers=1, num_decoder_layers=1, num_encoder_attention_heads=2,
        num_decoder_attention_heads=2, without=("d_model", "encoder_layers", "decoder_layers"),
    )  # fmt: skip
    for model in (fsmt, decoder, tiny_models.from_config("Mvp")().model, prophet().model):
        with pytest.raises(ValueError, match="it computes its attention by itself"):
            use_clock_attention(model)


def test_clocks_that_learned_are_not_replaced(tmp_path):
    model = use_clock_attention(tiny_models.marian().model, pace=3.0)
    model.save_pretrained(tmp_path)
    for used in (model, transformers.MarianMTModel.from_pretrained(tmp_path)):
        with pytest.raises(ValueError, match=r"MarianMTModel has clocks already.*change their pace with set_pace"):
            use_clock_attention(used)
        assert [clocks.pace.item() for clocks in clocks_of(used)] == [3.0, 3.0]


@pytest.mark.parametrize("pace", [np.float32(2), np.int64(2), torch.tensor(2.0)])
def test_options_computed_by_other_libraries_are_saved(pace, tmp_path):
    use_clock_attention(tiny_models.marian().model, pace=pace, logit_scale=np.float32(2)).save_pretrained(tmp_path)
    for clocks in clocks_of(transformers.MarianMTModel.from_pretrained(tmp_path)):
        assert (clocks.pace.item(), clocks.logit_scale) == (2.0, 2.0)


def test_masks_are_the_padding_of_the_source():
    torch.manual_seed(0)
    found = tiny_models.bart()
    model = use_clock_attention(lively(found.model))
    valid = found.inputs["attention_mask"].bool()[:, None, None].expand(2, 1, 6, 8)
    with torch.no_grad():
        expected = model(**found.inputs, labels=found.labels).logits
        encoded = model.get_encoder()(**found.inputs)

        def attend(mask):
            return model(encoder_outputs=encoded, attention_mask=mask, labels=found.labels).logits

        zeros = torch.zeros(valid.shape)
        for mask in (valid, *(zeros.masked_fill(~valid, x) for x in (-torch.inf, torch.finfo(zeros.dtype).min))):
            torch.testing.assert_close(attend(mask), expected)
        window = valid & (torch.arange(8) <= torch.arange(6)[:, None] + 2)
        with pytest.raises(ValueError, match="attention_mask: got one that differs between target steps or heads"):
            attend(window)
        with pytest.raises(ValueError, match=r"attention_mask: got values other than 0 and -3\.4.*pass a bool mask"):
            attend(zeros.masked_fill(~valid, -1e4))


def test_mistakes_are_named(marian):
    with pytest.raises(TypeError, match=r"got Linear, expected a Hugging Face PreTrainedModel"):
        use_clock_attention(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"clocks: got 'normalized'; .* always takes causal clocks"):
        use_clock_attention(marian.model, clocks="normalized")
    encoder = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
        )
    )
    with pytest.raises(ValueError, match="found no cross-attention in BertModel"):
        use_clock_attention(encoder)
    with pytest.raises(ValueError, match="BertModel has no clocks; call use_clock_attention first"):
        set_pace(encoder, 2.0)
    with pytest.raises(ValueError, match="logit_scale: got -1"):
        use_clock_attention(tiny_models.marian().model, logit_scale=-1)
    with pytest.raises(ValueError, match="phi: got 'square'"):
        use_clock_attention(tiny_models.marian().model, phi="square")
    config = tiny_models.marian().model.config
    config._attn_implementation = integration.NAME
    with pytest.raises(ValueError, match=r"attn_implementation: got 'clock' for MarianAttention, which has no clocks"):
        transformers.MarianMTModel(config)(**marian.inputs, labels=marian.labels)
