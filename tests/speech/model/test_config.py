"""Options of the acoustic models."""

import pytest
from pydantic import BaseModel, ValidationError

from clock_attention.speech.model.config import AcousticConfig, AlignedConfig, ModelConfig, architecture, key_of


class Holder(BaseModel):
    model: AcousticConfig


def test_options_without_a_kind_are_those_of_the_paper_s_model():
    assert isinstance(Holder.model_validate({"model": {"width": 64}}).model, ModelConfig)
    found = Holder.model_validate({"model": {"architecture": "aligned", "width": 64}}).model
    assert isinstance(found, AlignedConfig)
    assert Holder.model_validate_json(Holder(model=found).model_dump_json()).model == found
    assert architecture(3) == "attention"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 30, "heads": 4}, "width of a head must be an even whole number"),
        ({"width": 12, "heads": 4}, "even whole number"),
        ({"cross_attention": "larope", "decoding": "autoregressive"}, "needs the length of the utterance"),
        ({"dropout": 1.0}, "less than 1"),
        ({"dropout": float("nan")}, "finite"),
        ({"width": 10**9}, "less than or equal to 4096"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValidationError, match=message):
        ModelConfig.model_validate(options)


def test_the_decoding_decides_the_clocks():
    assert ModelConfig().target_clocks == "normalized"
    assert ModelConfig(decoding="autoregressive").target_clocks == "causal"
    assert ModelConfig(decoding="autoregressive", clocks="unnormalized").target_clocks == "unnormalized"


def test_faults_are_located_as_files_are_written():
    with pytest.raises(ValidationError) as found:
        Holder.model_validate({"model": {"architecture": "aligned", "width": "wide"}})
    assert [key_of(error["loc"]) for error in found.value.errors()] == ["model.width"]


def test_one_speaker_is_described_as_before_there_could_be_several():
    assert "speakers" not in AlignedConfig().model_dump()
    assert AlignedConfig().model_copy(update={"speakers": 2}).model_dump()["speakers"] == 2
    assert AlignedConfig.model_validate(AlignedConfig(speakers=2).model_dump()).speakers == 2
