"""Takes docs/figures/app.png: the page after it has spoken, halfway through the sentence. Needs chromium and selenium.

python docs/figures/app.py [VOICE]
"""

import shutil
import sys
import time
from pathlib import Path

from selenium import webdriver

from clock_attention.app.page import LOOK, Speaker, page
from clock_attention.speech.voice import Voice

speaker = Speaker(Voice.load(sys.argv[1] if len(sys.argv) > 1 else "default"))
_, url, _ = page(speaker).launch(prevent_thread_lock=True, quiet=True, **LOOK)
options = webdriver.ChromeOptions()
options.binary_location = shutil.which("chromium")
for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1220,2050"):
    options.add_argument(argument)
browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
browser.implicitly_wait(300)
try:
    browser.get(url)
    browser.find_element("css selector", "#speak").click()
    browser.find_element("css selector", "#figure img")
    browser.execute_script("a = document.querySelector('#spoken audio'); a.currentTime = 0.55 * a.duration")
    time.sleep(2)
    browser.find_element("css selector", "body").screenshot(str(Path(__file__).with_name("app.png")))
finally:
    browser.quit()
    speaker.close()
