"""Takes docs/figures/app.png and app_subtitles.png: the page after it has spoken, and after it has dubbed.

python docs/figures/app.py [VOICE]

Needs chromium and selenium.
"""

import shutil
import sys
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains

from clock_attention.app.page import LOOK, page
from clock_attention.app.speaker import Speaker
from clock_attention.speech.voice import Voice
from clock_attention.speech.voice.voice_folder import shipped_voices

HERE = Path(__file__).parent
speaker = Speaker(Voice.load(sys.argv[1] if len(sys.argv) > 1 else "default"), others=shipped_voices())
_, url, _ = page(speaker).launch(prevent_thread_lock=True, quiet=True, **LOOK)
options = webdriver.ChromeOptions()
options.binary_location = shutil.which("chromium")
for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1220,2280"):
    options.add_argument(argument)
browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
browser.implicitly_wait(300)
try:
    browser.get(url)
    browser.find_element("css selector", "#speak").click()
    browser.find_element("css selector", "#figure img")
    browser.execute_script("a = document.querySelector('#spoken audio'); a.currentTime = 0.55 * a.duration")
    time.sleep(2)
    grip = browser.find_elements("css selector", ".clock-grips i")[3]
    ActionChains(browser).drag_and_drop_by_offset(grip, 60, 0).perform()
    browser.find_element("css selector", "body").screenshot(str(HERE / "app.png"))
    browser.find_element("css selector", "button[role=tab]:nth-of-type(3)").click()
    browser.find_element("css selector", "#dub").click()
    browser.find_element("css selector", "#timeline img")
    browser.execute_script("a = document.querySelector('#dubbed audio'); a.pause(); a.currentTime = 4")
    time.sleep(2)
    browser.set_window_size(1220, 1240)
    browser.find_element("css selector", "body").screenshot(str(HERE / "app_subtitles.png"))
finally:
    browser.quit()
    speaker.close()
