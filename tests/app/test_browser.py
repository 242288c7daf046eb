"""Visits to the page with a real browser: Debian's chromium, with a mouse on a desk and a finger on a phone."""

import json
import re
import shutil
import time

import pytest
import soundfile

pytest.importorskip("gradio", reason="needs the extra clock-attention[app]")
webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.actions.action_builder import ActionBuilder  # noqa: E402
from selenium.webdriver.common.actions.interaction import POINTER_TOUCH  # noqa: E402
from selenium.webdriver.common.actions.pointer_input import PointerInput  # noqa: E402

from clock_attention.app.page import LOOK, guarded, page  # noqa: E402
from clock_attention.app.player import encoded  # noqa: E402
from clock_attention.app.speaker import Times  # noqa: E402
from clock_attention.speech.model import aligned  # noqa: E402

TEXT = "The birch canoe slid, slowly."
SRT = """1
00:00:00,500 --> 00:00:02,000
Hello there.

2
00:00:01,700 --> 00:00:02,500
Much too long a line, and at the same time as another.
"""
DESK, PHONE = (1280, 1400), (390, 844)
FRAME = 256 / 22050  # seconds

pytestmark = pytest.mark.slow


def wait(condition, what, seconds=200):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    pytest.fail(f"waited {seconds} s in vain for {what}")


@pytest.fixture(scope="module")
def url(speaker):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligned, "SHORTEST_SILENCE", 1.0)  # so that a voice of random weights makes silences, too
        yield from launched(speaker)


def launched(speaker):
    speaker.files(speaker.speak(TEXT, decoding="parallel"))  # loads and compiles what the first visitor would wait for
    blocks = page(speaker)
    _, url, _ = blocks.launch(prevent_thread_lock=True, quiet=True, **{**LOOK, **guarded("127.0.0.1")})
    yield url
    blocks.close()


@pytest.fixture
def browser(request, tmp_path, url):
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs a browser: Debian's packages chromium and chromium-driver")
    width, height = request.param
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(tmp_path)})
    if request.param == PHONE:
        metrics = {"width": width, "height": height, "pixelRatio": 2.0, "touch": True}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
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


class Visitor:
    """Someone in front of the page."""

    def __init__(self, browser, url):
        self.browser, self.url, self.script = browser, url, browser.execute_script
        browser.get(url)
        wait(lambda: self.find("#speak"), "the page")

    def find(self, selector):
        return self.browser.find_elements("css selector", selector)

    def type_into(self, selector, text):
        field = wait(lambda: self.find(selector), selector)[0]
        field.send_keys("\ue009a\ue000", text, "\ue004")  # all of what is there, the text, and Tab

    def press(self, selector):
        """Where it is on the screen, with whatever may lie over it."""
        element = wait(lambda: self.find(selector), selector)[0]
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def speak(self, button="#speak"):
        """Press the button and wait for another sound than before: its seconds and its loudest sample."""
        source = "return (document.querySelector('#spoken audio') || {}).src"
        before = self.script(source)
        self.press(button)
        wait(lambda: self.script(source) not in (None, before), "a new sound")
        return self.browser.execute_async_script(LOUDNESS)

    def words(self):
        """Label, start and end in seconds of the words as they were spoken."""
        return self.script(
            "return [...document.querySelectorAll('#spoken .clock-words button')]"
            ".map((word) => [word.textContent, Number(word.dataset.start), Number(word.dataset.end)])"
        )

    def shown(self):
        """Label, start and end of the words where they are drawn now, as shares of the track."""
        return self.script(
            "return [...document.querySelectorAll('#spoken .clock-words button')].map((word) => {"
            " const box = word.getBoundingClientRect(), all = word.closest('.clock-track').getBoundingClientRect();"
            " return [word.textContent, (box.left - all.left) / all.width, (box.right - all.left) / all.width]; })"
        )

    def drag(self, selector, pixels, touch=False):
        """Take a grip and move it."""
        # The figure comes last, and the page jumps with it if it is scrolled.
        wait(lambda: self.script("return (document.querySelector('#figure img') || {}).complete"), "the figure")
        wait(lambda: self.find("#textgrid:not([disabled])"), "the end of the work")
        grip = wait(lambda: self.find(f"#spoken .clock-grips i{selector}"), selector)[0]
        arrange = "arguments[0].scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'})"
        self.script(arrange, grip)
        at = self.script("const box = arguments[0].getBoundingClientRect(); return box.left + box.width / 2", grip)
        pixels = int(max(pixels, 6 - at))  # no further than the edge of the screen
        if touch:
            actions = ActionBuilder(self.browser, mouse=PointerInput(POINTER_TOUCH, "finger"))
            actions.pointer_action.move_to(grip).pointer_down()
            for _ in range(2):
                actions.pointer_action.move_by(pixels // 2, 2)
            actions.pointer_action.pointer_up()
            actions.perform()
        else:
            ActionChains(self.browser).click_and_hold(grip).move_by_offset(pixels, 5).release().perform()

    def overflow(self):
        """Elements that make the page wider than the screen, or are cut off."""
        return self.script(
            "const right = (each) => each.getBoundingClientRect().right;"
            "return [...document.querySelectorAll('body *')].filter((each) => !each.closest('.clock-scroll') &&"
            " (document.documentElement.scrollWidth > innerWidth && right(each) > innerWidth + 1 ||"
            " each.matches('label, button') && right(each) > right(each.closest('.block') || document.body) + 1))"
            ".map((each) => each.outerHTML.slice(0, 120))"
        )

    def speak_as_drawn(self):
        """Speak with the times that were dragged; the words before, and after."""
        score = "document.querySelector('#spoken .clock-track').clockScore"
        total = self.script(f"return {score}.total * {score}.frame")
        wanted = [[label, start * total, end * total] for label, start, end in self.shown()]
        seconds, _ = self.speak("#spoken .clock-again")
        assert seconds == pytest.approx(total, abs=1e-3)
        spoken = self.words()
        assert [label for label, *_ in spoken] == [label for label, *_ in wanted]
        for (_, *found), (_, *asked) in zip(spoken, wanted, strict=True):
            assert found == pytest.approx(asked, abs=FRAME / 4)  # pixels are finer than frames
        return spoken


@pytest.mark.parametrize("browser", [DESK], indirect=True)
def test_a_visitor_speaks_a_text_changes_the_pace_and_downloads_timestamps(browser, url, tmp_path):
    visitor = Visitor(browser, url)
    find = visitor.find
    visitor.type_into("#text textarea", TEXT)
    seconds, loudest = visitor.speak()
    assert loudest > 0.01
    words = [element.get_attribute("textContent") for element in find("#spoken .clock-words span")]
    assert words == ["The", "birch", "canoe", "slid", "slowly"]

    # It plays by itself. Pressing a word plays from there, and the timeline follows.
    wait(lambda: browser.execute_script("return document.querySelector('#spoken audio').currentTime > 0"), "the sound")
    browser.execute_script("document.querySelector('#spoken audio').pause()")
    browser.execute_script(HEARD)
    find("#spoken .clock-words button")[2].click()
    output = wait(
        lambda: (spoken := browser.execute_script("return window.said")) and "slowly" in spoken and spoken, "the end"
    )
    followed = [word for word in output if word in words]
    assert followed[0] == "canoe"
    assert followed == [word for word in words if word in followed]  # a busy machine may leave one out
    assert len(output) > len(followed)  # phonemes too
    wait(lambda: find("#figure img"), "the figure")

    visitor.type_into("#pace input[type=number]", "2")
    faster, _ = visitor.speak()
    assert faster == pytest.approx(seconds / 2, rel=0.1)

    wait(lambda: find("#textgrid:not([disabled])"), "a file of this speech")[0].click()
    grid = wait(lambda: list(tmp_path.glob("*.TextGrid")), "the download")[0]
    assert 'Object class = "TextGrid"' in grid.read_text("utf-8")
    assert float(re.search(r"xmax = (\S+)", grid.read_text("utf-8"))[1]) == pytest.approx(faster, abs=1e-3)

    visitor.type_into("#text textarea", "…")
    find("#speak")[0].click()
    wait(lambda: "othing to say" in browser.find_element("tag name", "body").text, "a sentence about what is wrong")

    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"]
    assert [address for address in asked if not address.startswith((url, "data:", "blob:", "chrome:"))] == []


@pytest.mark.parametrize("browser", [DESK, PHONE], indirect=True)
def test_another_voice_is_chosen_and_speaks(browser, url):
    visitor = Visitor(browser, url)
    decodings = "return [...document.querySelectorAll('#decoding label')].map((label) => label.textContent.trim())"
    assert visitor.script(decodings) == ["parallel", "autoregressive"]
    visitor.press("#voice input")
    wait(lambda: visitor.find("#voice [role=option]"), "the voices")
    assert [option.get_attribute("aria-label") for option in visitor.find("#voice [role=option]")] == ["voice", "ann"]
    visitor.press("#voice [role=option][aria-label=ann]")
    wait(lambda: "she recorded herself" in visitor.find("#about")[0].text, "whose voice it is")
    wait(lambda: visitor.script(decodings) == ["parallel"], "its only decoder")
    assert visitor.overflow() == []
    visitor.type_into("#text textarea", TEXT)
    visitor.speak()
    assert [label for label, *_ in visitor.words()] == ["The", "birch", "canoe", "slid", "slowly"]


@pytest.mark.parametrize("browser", [DESK], indirect=True)
def test_dragged_words_are_spoken_by_the_voice_in_the_player_when_another_one_is_chosen(browser, url, speaker):
    visitor = Visitor(browser, url)
    visitor.type_into("#text textarea", TEXT)
    visitor.speak()
    visitor.press("#voice input")
    visitor.press("#voice [role=option][aria-label=ann]")
    wait(lambda: "she recorded herself" in visitor.find("#about")[0].text, "whose voice it is")
    visitor.drag("[data-begins='2']", -70)
    visitor.speak_as_drawn()
    given = Times.of(visitor.script("return window.clockTimes"))
    assert (given.voice, given.decoding) == ("voice", "parallel")
    sound = visitor.script("return document.querySelector('#spoken audio').src").partition(",")[2]
    *_, (theirs, _) = speaker.speak_again_in_steps(given._replace(voice="ann"))
    *_, (ours, _) = speaker.speak_again_in_steps(given)
    assert sound == encoded(ours) != encoded(theirs)

    # What is in the player then can be dragged once more, and the voice that was chosen speaks what is new.
    visitor.drag("[data-begins='3']", 30)
    visitor.speak_as_drawn()
    assert Times.of(visitor.script("return window.clockTimes")).voice == "voice"
    visitor.speak()
    visitor.drag("[data-begins='2']", -70)
    visitor.speak_as_drawn()
    assert Times.of(visitor.script("return window.clockTimes")).voice == "ann"


@pytest.mark.parametrize(("browser", "touch"), [(DESK, False), (PHONE, True)], indirect=["browser"])
def test_word_edges_can_be_dragged_and_spoken_again(browser, url, touch):
    visitor = Visitor(browser, url)
    visitor.type_into("#text textarea", TEXT)
    visitor.speak()
    wait(lambda: visitor.find("#spoken .clock-grips i"), "edges to drag")
    visitor.script("document.querySelector('#spoken audio').pause()")
    before = visitor.words()
    assert not visitor.find("#spoken .clock-again")[0].is_enabled()

    # "canoe" begins earlier, as far as it goes: where "birch" ends. All others stay.
    visitor.drag("[data-begins='2']", -70, touch)
    joined = visitor.speak_as_drawn()
    assert joined[2][1] < before[2][1]
    assert joined[2][1] == pytest.approx(before[1][2], abs=1e-3)
    assert [joined[word][1:] for word in (0, 1, 3, 4)] == [
        pytest.approx(before[word][1:], abs=1e-3) for word in (0, 1, 3, 4)
    ]

    # Now they share an edge: one gets what the other gives, down to a frame for each phoneme of "birch".
    visitor.drag("[data-ends='1'][data-begins='2']", -70, touch)
    given = visitor.speak_as_drawn()
    least = int(visitor.find("#spoken .clock-words button")[1].get_attribute("data-least"))
    assert least * FRAME - 1e-3 <= given[1][2] - given[1][1] < joined[1][2] - joined[1][1] - 0.02
    assert given[2][1] == pytest.approx(given[1][2], abs=1e-3)
    assert given[2][2] == pytest.approx(joined[2][2], abs=1e-3)

    # With the rest moving along, by the keyboard: the whole gets longer.
    wait(lambda: visitor.find("#spoken .clock-grips i"), "edges to drag")
    visitor.press("#spoken .clock-along")
    visitor.script("""document.querySelector("#spoken .clock-grips i[data-ends='1']").focus()""")
    browser.switch_to.active_element.send_keys("\ue008", "\ue014", "\ue000", "\ue014")  # shift + right, right
    longer = visitor.speak_as_drawn()
    assert [word[1] - old[1] for word, old in zip(longer, given, strict=True)] == pytest.approx(
        [0, 0, *[11 * FRAME] * 3], abs=1e-3
    )
    assert visitor.overflow() == []

    # What was dragged can be taken back.
    wait(lambda: visitor.find("#spoken .clock-grips i"), "edges to drag")
    at = visitor.shown()
    visitor.drag("[data-ends='3']", -30, touch)
    assert visitor.shown() != at
    visitor.press("#spoken .clock-reset")
    assert [word[1:] for word in visitor.shown()] == [pytest.approx(word[1:], abs=1e-4) for word in at]


@pytest.mark.parametrize("browser", [DESK, PHONE], indirect=True)
def test_subtitles_from_a_file_are_dubbed_played_and_downloaded(browser, url, tmp_path):
    visitor = Visitor(browser, url)
    visitor.press("button[role=tab]:nth-of-type(3)")
    (tmp_path / "film.srt").write_bytes("\ufeff".encode() + SRT.encode())
    wait(lambda: visitor.find(".clock-file input"), "the choice of a file")[0].send_keys(str(tmp_path / "film.srt"))
    field = "return document.querySelector('#subtitles textarea').value"
    wait(lambda: "at the same time" in visitor.script(field), "the text of the file")
    visitor.press("#dub")
    wait(lambda: visitor.find("#dubbed .clock-cues button"), "the cues")
    assert [cue.get_attribute("class").split()[:2] for cue in visitor.find("#dubbed .clock-cues button")] == [
        ["spoken", "lane0"],
        ["fast", "lane1"],
    ]
    assert "cut" in visitor.find("#dubbed .clock-attention")[0].text
    playing = (
        "const [audio] = document.querySelectorAll('#dubbed audio'); return audio.currentTime > 0 && audio.duration"
    )
    assert wait(lambda: visitor.script(playing), "the sound") == pytest.approx(2.5, abs=1e-3)
    picture = "return (document.querySelector('#timeline img') || {}).naturalWidth > 300"
    wait(lambda: visitor.script(picture), "the picture")
    visitor.press("#dubbed-wav")
    sound = wait(lambda: list(tmp_path.glob("*.wav")), "the sound")[0]
    assert soundfile.info(sound).frames == round(2.5 * 22050)
    visitor.press("#dubbed-report")
    report = wait(lambda: list(tmp_path.glob("*.json")), "the report")[0]
    assert json.loads(report.read_text("utf-8"))["summary"]["cues"] == 2
    assert visitor.overflow() == []

    visitor.type_into("#subtitles textarea", "no subtitles")
    visitor.press("#dub")
    wait(lambda: "no cue in it" in browser.find_element("tag name", "body").text, "a sentence about what is wrong")


@pytest.mark.parametrize("browser", [PHONE], indirect=True)
def test_nothing_overflows_on_a_phone(browser, url):
    visitor = Visitor(browser, url)
    visitor.speak()
    wait(lambda: visitor.find("#figure img"), "the figure")
    assert visitor.overflow() == []
    visitor.press("button[role=tab]:nth-of-type(2)")
    visitor.press("#compare")
    wait(lambda: visitor.find("#player-slow audio"), "the slow one")
    assert visitor.overflow() == []
