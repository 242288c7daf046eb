"""The web page: requests within limits, players that show what is said when, and one visit with a real browser."""

import base64
import io
import itertools
import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

gr = pytest.importorskip("gradio", reason="needs the extra clock-attention[app]")

from clock_attention.app import page as app_module  # noqa: E402
from clock_attention.app.page import LONGEST, LOOK, Speaker, page, sentences  # noqa: E402
from clock_attention.app.player import MOST_PIXELS_PER_SECOND, pixels_per_second, player  # noqa: E402
from clock_attention.speech.text.phonemes import Phonemes  # noqa: E402
from clock_attention.speech.voice.voice import Voice  # noqa: E402
from clock_attention.timestamps import Alignment  # noqa: E402
from tests.speech.voices import tiny_voice  # noqa: E402

TEXT = "The birch canoe slid, slowly."


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    folder = tiny_voice(tmp_path_factory.mktemp("app") / "voice")
    shutil.copytree(
        tiny_voice(folder.parent / "steps", decoding="autoregressive", positions="rotary"), folder / "autoregressive"
    )
    return Voice.load(folder)


@pytest.fixture(scope="module")
def speaker(voice):
    speaker = Speaker(voice, vocoder="griffin-lim")
    yield speaker
    speaker.close()


@pytest.fixture(scope="module")
def speech(speaker):
    return speaker.speak(TEXT, decoding="parallel")


def test_a_player_holds_the_sound_itself(speech):
    coded = re.search(r'src="data:audio/wav;base64,([^"]+)"', player(speech, "it"))[1]
    wave, rate = soundfile.read(io.BytesIO(base64.b64decode(coded)), dtype="float32")
    assert rate == speech.sample_rate
    np.testing.assert_allclose(wave, speech.audio.clip(-1, 1), atol=1e-4)


def test_a_player_shows_every_word_and_phoneme_where_it_is_said(speech):
    shown = re.findall(r'data-start="([^"]+)" data-end="([^"]+)".*?<span>([^<]+)</span>', player(speech, "it"))
    expected = [i for tier in ("words", "phones") for i in speech.tiers()[tier] if i.label and i.end > i.start]
    assert [label for _, _, label in shown] == [interval.label for interval in expected]
    for (start, end, _), interval in zip(shown, expected, strict=True):
        assert float(start) == pytest.approx(interval.start, abs=1e-3)
        assert float(end) == pytest.approx(interval.end, abs=1e-3)


def test_speech_can_be_heard_while_it_grows(speaker):
    steps = list(speaker.speak_in_steps("One two. Three. Four five.", decoding="parallel"))
    assert len(steps) == 3
    for shorter, longer in itertools.pairwise(steps):
        assert len(shorter.audio) < len(longer.audio)
        np.testing.assert_array_equal(longer.audio[: len(shorter.audio)], shorter.audio)
    assert 'data-plays="continues"' in player(steps[1], "it", "continues")


def test_every_word_has_room(speech):
    fast = replace(speech, alignment=Alignment(speech.alignment.labels, speech.alignment.durations, 0.004))
    for each in (speech, fast):
        wide = pixels_per_second(each.words)
        assert all((i.end - i.start) * wide >= 8 * len(i.label) for i in each.words) or wide == MOST_PIXELS_PER_SECOND


def test_what_is_written_cannot_run(speech):
    phonemes = speech.phonemes
    hostile = Phonemes(phonemes.tokens, phonemes.word_index, ('<img src=x onerror="alert(1)">',) * len(phonemes.words))
    html = player(replace(speech, phonemes=hostile), '"><script>alert(2)</script>')
    assert "<img" not in html
    assert "<script" not in html
    assert "&lt;img" in html


def test_pace_and_duration_set_the_length(speaker, speech):
    twice = speaker.speak(TEXT, decoding="parallel", pace=2.0)
    assert len(twice.mel) == pytest.approx(len(speech.mel) / 2, abs=2)
    exact = speaker.speak(TEXT, decoding="parallel", pace=2.0, duration=" 3.5s ")  # the duration replaces the pace
    assert len(exact.mel) == round(3.5 * 22050 / 256)


def test_the_other_decoder_is_found(speaker):
    assert speaker.decodings == ["parallel", "autoregressive"]
    assert speaker.speak("Hello.", decoding="autoregressive").utterances[0].stopped_by_itself is not None


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"text": "word " * 200}, "600 at a time"),
        ({"text": ""}, "nothing to say"),
        ({"text": "😀"}, "nothing to say"),
        ({"text": TEXT, "duration": "0"}, "positive time"),
        ({"text": TEXT, "duration": "soon"}, "positive time"),
        ({"text": TEXT, "duration": str(LONGEST + 1)}, "at most"),
        ({"text": TEXT, "pace": 7.0}, "0.5 … 2"),
        ({"text": TEXT, "decoding": "sideways"}, "no sideways decoder"),
    ],
)
def test_requests_beyond_the_limits_are_refused_in_words(speaker, request_, complaint):
    with pytest.raises(ValueError, match=complaint):
        speaker.speak(**{"decoding": "parallel", **request_})


def test_mistakes_become_sentences_and_surprises_stay_in_the_terminal(caplog):
    with pytest.raises(gr.Error) as mistake, sentences():
        raise ValueError("nothing to say in '': give a word")
    assert mistake.value.message == "Nothing to say in '': give a word"
    with pytest.raises(gr.Error) as surprise, sentences():
        raise RuntimeError("secret path")
    assert "secret" not in surprise.value.message
    assert "secret path" in caplog.text


def test_files_of_old_requests_disappear(voice, speech, monkeypatch):
    monkeypatch.setattr(app_module, "KEPT", 2)
    speaker = Speaker(voice, vocoder="griffin-lim")
    made = [speaker.files(speech) for _ in range(3)]
    assert [Path(figure).exists() for figure, _, _ in made] == [False, True, True]
    assert [Path(path).suffix for path in made[-1]] == [".png", ".wav", ".TextGrid"]
    speaker.close()
    assert not Path(made[-1][0]).parent.parent.exists()


def test_the_command_serves_this_machine_only_and_reports_to_nobody(voice, monkeypatch):
    launched = {}
    monkeypatch.setattr(gr.Blocks, "launch", lambda blocks, **options: launched.update(options, page=blocks))
    runner, command = CliRunner(), command_line()
    result = runner.invoke(command, ["--voice", str(voice.path), "--vocoder", "griffin-lim"])
    assert result.exit_code == 0, result.output
    assert (launched["server_name"], launched["share"]) == ("127.0.0.1", False)
    assert launched["page"].analytics_enabled is False
    failed = runner.invoke(command, ["--voice", "nowhere"])
    assert failed.exit_code == 1
    assert "nowhere: not a voice" in failed.output
    assert "Traceback" not in failed.output


def command_line():
    import typer

    from clock_attention.commands.app import app as app_command

    alone = typer.Typer()
    alone.command()(app_command)
    return alone


def wait(condition, what, seconds=200):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    pytest.fail(f"waited {seconds} s in vain for {what}")


@pytest.fixture
def browser(tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs a browser: Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,1400"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(tmp_path)})
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield driver
    driver.quit()


LOUDNESS = """
const done = arguments[arguments.length - 1];
fetch(document.querySelector('#spoken audio').src).then((got) => got.arrayBuffer())
  .then((bytes) => new OfflineAudioContext(1, 1, 22050).decodeAudioData(bytes))
  .then((sound) => done([sound.duration, Math.max(...sound.getChannelData(0))]));
"""

# Notes every word and phoneme that the timeline marks as being said.
HEARD = """
window.said = [];
new MutationObserver((changes) => changes.forEach(({ target, oldValue }) => {
  if (target.classList.contains('now') && !oldValue.includes('now')) window.said.push(target.textContent);
})).observe(document.querySelector('#spoken'), { subtree: true, attributeFilter: ['class'], attributeOldValue: true });
"""


@pytest.mark.slow
def test_a_visitor_types_presses_hears_changes_the_pace_and_takes_the_timestamps_home(speaker, browser, tmp_path):
    speaker.files(speaker.speak(TEXT, decoding="parallel"))  # loads and compiles what the first visitor would wait for
    blocks = page(speaker)
    _, url, _ = blocks.launch(prevent_thread_lock=True, quiet=True, **LOOK)
    try:
        visit(browser, url, tmp_path)
    finally:
        blocks.close()


def visit(browser, url, downloads):
    def find(selector):
        return browser.find_elements("css selector", selector)

    def type_into(selector, text):
        field = wait(lambda: find(selector), selector)[0]
        field.send_keys("\ue009a\ue000", text, "\ue004")  # all of what is there, the text, and Tab

    def speak():
        """Press the button and wait for another sound than before: its seconds and its loudest sample."""
        source = "return (document.querySelector('#spoken audio') || {}).src"
        before = browser.execute_script(source)
        wait(lambda: find("#speak"), "the button")[0].click()
        wait(lambda: browser.execute_script(source) not in (None, before), "a new sound")
        return browser.execute_async_script(LOUDNESS)

    browser.get(url)
    type_into("#text textarea", TEXT)
    seconds, loudest = speak()
    assert loudest > 0.01
    words = [element.get_attribute("textContent") for element in find("#spoken .clock-words span")]
    assert words == ["The", "birch", "canoe", "slid", "slowly"]

    # It plays by itself. Pressing a word plays from there, and the timeline follows.
    wait(lambda: browser.execute_script("return document.querySelector('#spoken audio').currentTime > 0"), "the sound")
    browser.execute_script("document.querySelector('#spoken audio').pause()")
    browser.execute_script(HEARD)
    find("#spoken .clock-words button")[2].click()
    heard = wait(
        lambda: (said := browser.execute_script("return window.said")) and "slowly" in said and said, "the end"
    )
    followed = [word for word in heard if word in words]
    assert followed[0] == "canoe"
    assert followed == [word for word in words if word in followed]  # a busy machine may leave one out
    assert len(heard) > len(followed)  # phonemes too
    wait(lambda: find("#figure img"), "the figure")

    type_into("#pace input[type=number]", "2")
    faster, _ = speak()
    assert faster == pytest.approx(seconds / 2, rel=0.1)

    wait(lambda: find("#textgrid:not([disabled])"), "a file of this speech")[0].click()
    grid = wait(lambda: list(downloads.glob("*.TextGrid")), "the download")[0]
    assert 'Object class = "TextGrid"' in grid.read_text("utf-8")
    assert float(re.search(r"xmax = (\S+)", grid.read_text("utf-8"))[1]) == pytest.approx(faster, abs=1e-3)

    type_into("#text textarea", "…")
    find("#speak")[0].click()
    wait(lambda: "othing to say" in browser.find_element("tag name", "body").text, "a sentence about what is wrong")

    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"]
    assert [address for address in asked if not address.startswith((url, "data:", "blob:", "chrome:"))] == []
