"""The order for a voice."""

from pathlib import Path

import pytest

from clock_attention.own_voice.order import Order, sentences_to_speak


def order(**options):
    return Order(Path("mine"), Path("voices/me"), **{"consent": "I recorded myself", **options})


def test_a_voice_needs_consent():
    with pytest.raises(ValueError, match="whose voice is it, and did they agree"):
        order(consent="  ")


def test_impossible_orders_are_refused():
    with pytest.raises(ValueError, match="minutes: got 0, expected more than 0"):
        order(minutes=0)
    with pytest.raises(ValueError, match="minutes: got nan, expected more than 0"):
        order(minutes=float("nan"))
    with pytest.raises(ValueError, match="blend: got 2, expected a share between 0 and 1"):
        order(blend=2)
    with pytest.raises(ValueError, match="unknown recognizer 'ear'"):
        order(recognizer="ear")


def test_prompts_without_words_are_refused_before_the_training(tmp_path):
    pytest.importorskip("whisper_normalizer")
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("One dog.\nUm.\n")
    with pytest.raises(ValueError, match=r"the text 'Um.' has no words to compare with"):
        sentences_to_speak(order(prompts=prompts))
    assert sentences_to_speak(order(prompts=prompts, count=1)) == ["One dog."]


def test_the_work_folder_is_next_to_the_voice():
    assert order().work == Path("voices/me.work")
    here = Order(Path("mine"), Path("."), "mine").work
    assert here == Path.cwd().with_name(f"{Path.cwd().name}.work")


def test_a_voice_has_the_name_of_its_folder():
    assert order().name == "me"
    assert Order(Path("mine"), Path("."), "mine").name == Path.cwd().name
