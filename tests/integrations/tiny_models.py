"""Tiny random Hugging Face models, one of every family, and something to feed them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

SMALL = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 64, "vocab_size": 30,
}  # fmt: skip
TOKENS = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 0, "decoder_start_token_id": 2}


@dataclass
class Family:
    """A model and one batch of two items, the second with padded source steps."""

    model: Any
    inputs: dict[str, torch.Tensor]
    labels: torch.Tensor


def lively(model: Any) -> Any:
    """Large random weights: with the usual small ones, random models repeat one token whatever they attend to."""
    for parameter in model.parameters():
        if parameter.dim() > 1 and parameter.requires_grad:  # not the sinusoids, which are not saved
            torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def text_source() -> dict[str, torch.Tensor]:
    mask = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    return {"input_ids": torch.randint(3, 30, (2, 8)), "attention_mask": mask}


def target() -> torch.Tensor:
    return torch.randint(3, 30, (2, 6))


def marian() -> Family:
    from transformers import MarianConfig, MarianMTModel

    return Family(MarianMTModel(MarianConfig(**SMALL, **TOKENS, forced_eos_token_id=None)), text_source(), target())


def bart() -> Family:
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(**SMALL, **TOKENS, forced_eos_token_id=None, attention_dropout=0.1)
    return Family(BartForConditionalGeneration(config), text_source(), target())


def t5() -> Family:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=30, d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2,
        pad_token_id=1, eos_token_id=0, decoder_start_token_id=2,
    )  # fmt: skip
    return Family(T5ForConditionalGeneration(config), text_source(), target())


def bert2bert() -> Family:
    from transformers import BertConfig, EncoderDecoderConfig, EncoderDecoderModel

    size = {
        "vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 64, "pad_token_id": 1,
    }  # fmt: skip
    config = EncoderDecoderConfig.from_encoder_decoder_configs(BertConfig(**size), BertConfig(**size))
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 2, 1, 0
    model = EncoderDecoderModel(config)
    model.generation_config.update(decoder_start_token_id=2, pad_token_id=1, eos_token_id=0)
    return Family(model, text_source(), target())


def whisper() -> Family:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    sizes = {name: value for name, value in SMALL.items() if name != "max_position_embeddings"}
    config = WhisperConfig(
        **sizes, **TOKENS, num_mel_bins=4, max_source_positions=10, max_target_positions=64,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    return Family(WhisperForConditionalGeneration(config), {"input_features": torch.randn(2, 4, 20)}, target())


def moonshine() -> Family:
    from transformers import MoonshineConfig, MoonshineForConditionalGeneration

    config = MoonshineConfig(
        vocab_size=30, hidden_size=16, intermediate_size=16, encoder_num_hidden_layers=1, decoder_num_hidden_layers=2,
        encoder_num_attention_heads=2, decoder_num_attention_heads=2, max_position_embeddings=64,
        pad_token_id=1, bos_token_id=2, eos_token_id=0, decoder_start_token_id=2,
    )  # fmt: skip
    mask = torch.ones(2, 4000, dtype=torch.long)
    mask[1, 2500:] = 0
    return Family(
        MoonshineForConditionalGeneration(config),
        {"input_values": torch.randn(2, 4000), "attention_mask": mask},
        target(),
    )


def musicgen() -> Family:
    from transformers import EncodecConfig, MusicgenConfig, MusicgenForConditionalGeneration, T5Config
    from transformers.models.musicgen.configuration_musicgen import MusicgenDecoderConfig

    text = T5Config(vocab_size=30, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, pad_token_id=1)
    audio = EncodecConfig(
        num_filters=2, num_residual_layers=1, hidden_size=8, codebook_size=32, codebook_dim=8, upsampling_ratios=[4, 2],
        num_lstm_layers=1, target_bandwidths=[1.5, 24.0], sampling_rate=800,
    )  # fmt: skip
    decoder = MusicgenDecoderConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=16, num_codebooks=2,
        max_position_embeddings=64, pad_token_id=32, bos_token_id=32, tie_word_embeddings=False,
    )  # fmt: skip
    decoder.decoder_start_token_id = 32
    model = MusicgenForConditionalGeneration(MusicgenConfig(text_encoder=text, audio_encoder=audio, decoder=decoder))
    model.generation_config.update(decoder_start_token_id=32, pad_token_id=32, guidance_scale=1)
    return Family(model, text_source(), torch.randint(0, 32, (2, 6, 2)))


def speecht5_config() -> Any:
    from transformers import SpeechT5Config

    return SpeechT5Config(
        vocab_size=30, hidden_size=16, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=16,
        decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=16, conv_dim=(8, 8), conv_stride=(5, 4),
        conv_kernel=(10, 4), num_feat_extract_layers=2, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
        num_mel_bins=4, speech_decoder_prenet_units=8, speech_decoder_postnet_units=8, speaker_embedding_dim=6,
        max_text_positions=64, max_speech_positions=64, mask_time_prob=0.0, apply_spec_augment=False,
        use_guided_attention_loss=False, encoder_layerdrop=0.0, decoder_layerdrop=0.0,
        pad_token_id=1, bos_token_id=2, eos_token_id=0, decoder_start_token_id=2,
    )  # fmt: skip


def speecht5() -> Family:
    """Speech to text: the role in which SpeechT5 generates as the others do."""
    from transformers import SpeechT5ForSpeechToText

    mask = torch.ones(2, 400, dtype=torch.long)
    mask[1, 250:] = 0
    inputs = {"input_values": torch.randn(2, 400), "attention_mask": mask}
    model = SpeechT5ForSpeechToText(speecht5_config())
    model.generation_config.suppress_tokens = [1]  # after padding in the target, SpeechT5 counts positions differently
    return Family(model, inputs, target())


FAMILIES: dict[str, Callable[[], Family]] = {
    "marian": marian,
    "bart": bart,
    "t5": t5,
    "bert2bert": bert2bert,
    "whisper": whisper,
    "moonshine": moonshine,
    "musicgen": musicgen,
    "speecht5": speecht5,
}


def from_config(
    name: str, model: str = "ForConditionalGeneration", without: Iterable[str] = (), **options: Any
) -> Callable[[], Family]:
    """A text model of the family `name` whose config takes the sizes of `SMALL`, but for some."""

    def make() -> Family:
        import transformers

        config = getattr(transformers, f"{name}Config")
        sizes = {size: number for size, number in SMALL.items() if size not in without}
        made = getattr(transformers, f"{name}{model}")(config(**{**sizes, **TOKENS, **options}))
        return Family(made, text_source(), target())

    return make


def t5_like(name: str, **options: Any) -> Callable[[], Family]:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2}
    return from_config(name, **{**sizes, **options}, without=SMALL.keys() - {"d_model", "vocab_size"})


def speech_to_text() -> Family:
    from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration

    sizes = {name: value for name, value in SMALL.items() if name != "max_position_embeddings"}
    config = Speech2TextConfig(
        **sizes, **TOKENS, input_feat_per_channel=8, conv_channels=8, max_source_positions=64, max_target_positions=64
    )
    mask = torch.tensor([[1] * 32, [1] * 20 + [0] * 12])
    inputs = {"input_features": torch.randn(2, 32, 8), "attention_mask": mask}
    return Family(Speech2TextForConditionalGeneration(config), inputs, target())


EXPERTS = {"num_experts": 2, "expert_capacity": 64}
# Families that have one test each, of what may differ between them.
OTHERS: dict[str, Callable[[], Family]] = {
    "nllb_moe": from_config(
        "NllbMoe", **EXPERTS, encoder_sparse_step=2, decoder_sparse_step=2, router_jitter_noise=0.0
    ),
    "mbart": from_config("MBart", forced_eos_token_id=None),
    "m2m100": from_config("M2M100"),
    "plbart": from_config("PLBart", forced_eos_token_id=None),
    "pegasus": from_config("Pegasus", forced_eos_token_id=None),
    "pegasus_x": from_config("PegasusX", forced_eos_token_id=None, block_size=4, num_global_tokens=2),
    "bigbird_pegasus": from_config("BigBirdPegasus", attention_type="original_full"),
    "blenderbot": from_config("Blenderbot", forced_eos_token_id=None),
    "seamless_m4t": from_config(
        "SeamlessM4T", model="ForTextToText", without=("d_model",), hidden_size=16, speech_encoder_layers=1,
        speech_encoder_attention_heads=2, speech_encoder_intermediate_size=16, t2u_vocab_size=10, t2u_encoder_layers=1,
        t2u_decoder_layers=1,
    ),
    "mt5": t5_like("MT5"),
    "umt5": t5_like("UMT5"),
    "longt5": t5_like("LongT5"),
    "switch_transformers": t5_like(
        "SwitchTransformers", **EXPERTS, num_sparse_encoder_layers=0, num_sparse_decoder_layers=1
    ),
    "speech_to_text": speech_to_text,
}  # fmt: skip


LENGTH = {"max_new_tokens": 9, "min_new_tokens": 9, "do_sample": False}


def generated(model, inputs, **options):
    """Tokens (or codes) and the logits of every step."""
    torch.manual_seed(0)
    result = model.generate(**inputs, **LENGTH, **options, return_dict_in_generate=True, output_logits=True)
    return result.sequences, torch.stack(result.logits)
