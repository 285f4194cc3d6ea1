"""The report in a real browser. Without one these tests are left out, unless MADBAYES_BROWSER=required."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from madbayes import DPMeans
from madbayes.report import render_report
from madbayes.tables import Recipe
from madbayes.words import number, percent

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1100,1000")


def find_browser():
    """The paths of Chromium and its driver; without them the test is left out, or fails where it may not be."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    driver = shutil.which("chromedriver")
    if browser and driver:
        return browser, driver
    words = "the report was not looked at in a browser: install chromium and chromium-driver"
    if os.environ.get("MADBAYES_BROWSER") == "required":
        pytest.fail(words)
    pytest.skip(words)


@pytest.fixture(scope="module")
def browser():
    binary, driver = find_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(flag)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # root has none
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    """Where screenshots go."""
    folder = os.environ.get("MADBAYES_ARTIFACTS")
    place = Path(folder) if folder else tmp_path_factory.mktemp("artifacts")
    place.mkdir(parents=True, exist_ok=True)
    return place


@pytest.fixture(params=["houses", "dice"])
def made(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def opened(browser, made, tmp_path):
    """The page of a fit, freshly opened; in the end nothing was complained about, and nothing was asked for."""
    file = tmp_path / "report.html"
    file.write_text(made.page, encoding="utf-8")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(file.as_uri())
    yield browser
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert asked
    assert all(url == file.as_uri() or url.startswith("data:image/png") for url in asked)


def shown(browser):
    """What the path section says now: penalty, and the text of its parts."""
    (stop,) = (one for one in browser.find_elements(By.CSS_SELECTOR, "article.stop") if one.is_displayed())
    texts = {name: stop.find_element(By.CSS_SELECTOR, f".{name}").text for name in ("k", "sse", "interval")}
    shares = [one.text for one in stop.find_elements(By.CSS_SELECTOR, ".path-groups .share")]
    penalty = float(browser.find_element(By.ID, "path-penalty").get_attribute("data-penalty"))
    return penalty, texts, shares, len(stop.find_elements(By.TAG_NAME, "img"))


def check_path(made, browser):
    """That the page shows what the path has at the penalty it shows; how many groups that are."""
    path, model = made.model.path_, made.model
    penalty, texts, shares, n_pictures = shown(browser)
    best = path.at(penalty)
    low, high = path.intervals[best.K]
    assert int(texts["k"]) == best.K
    assert texts["sse"] == number(path.sse[best.K - path.n_components[0]])
    assert texts["interval"] == f"{number(low)} to {number(high) if np.isfinite(high) else 'any higher one'}"
    assert low * (1 - 1e-9) <= penalty <= high * (1 + 1e-9)
    if best.K <= 8:  # the sums of more features are too many
        expected = [percent(size / len(made.X)) for size in sorted(sizes_of(made, best.A), reverse=True)]
        assert shares == expected
    assert n_pictures == (min(best.K, 12) if model._adds_up else 0)
    return best.K


def sizes_of(made, A):
    """How many rows have each group: the nearest mean, or the best of all sums of features."""
    bits = np.eye(len(A)) if not made.model._adds_up else (np.arange(2 ** len(A))[:, None] >> np.arange(len(A))) & 1
    sums = bits @ A
    return bits[((sums**2).sum(axis=1) - 2 * made.X @ sums.T).argmin(axis=1)].sum(axis=0)


def test_the_slider_moves_along_the_path_by_keyboard(made, opened):
    slider = opened.find_element(By.ID, "penalty")
    assert check_path(made, opened) == made.model._n_features_out
    seen = set()
    slider.send_keys(Keys.END)
    for _ in range(12):
        seen.add(check_path(made, opened))
        slider.send_keys(Keys.PAGE_DOWN)
    assert len(seen) >= 3
    before = shown(opened)[0]
    slider.send_keys(Keys.ARROW_RIGHT)
    assert shown(opened)[0] > before
    assert f"{check_path(made, opened)} groups" in slider.get_attribute("aria-valuetext")


def test_numbers_of_absurd_scales_stay_inside_their_cards(browser, tmp_path):
    rng, kind = np.random.default_rng(0), np.repeat([0, 1], 30)
    scales = {"lifetime_bytes_of_all": 1e10, "income_in_roubles": 4e6, "click_rate_per_page": 3e-7}
    values = {name: scale * (-2.345 + kind + rng.normal(0, 0.1, 60)) for name, scale in scales.items()}
    recipe = Recipe()
    X = recipe.fit_transform(pd.DataFrame(values))
    file = tmp_path / "report.html"
    file.write_text(render_report(DPMeans("10%", random_state=0).fit(X), X, recipe=recipe), encoding="utf-8")
    browser.get(file.as_uri())
    cards = browser.find_elements(By.CSS_SELECTOR, ".card")
    assert len(cards) > 2
    assert all(browser.execute_script("return arguments[0].scrollWidth <= arguments[0].clientWidth", x) for x in cards)


def test_buttons_go_to_a_number(made, opened):
    for button in opened.find_elements(By.CSS_SELECTOR, "[data-jump]")[:5]:
        button.send_keys(Keys.ENTER)
        assert check_path(made, opened) == int(button.text)
        assert button.get_attribute("aria-pressed") == "true"


def test_all_is_reached_by_the_tab_key(made, opened):
    reached = []
    for _ in range(60):
        opened.switch_to.active_element.send_keys(Keys.TAB)
        here = opened.switch_to.active_element
        reached.append(here.get_attribute("id") or here.get_attribute("data-jump") or here.get_attribute("href"))
        if here.get_attribute("id") == "penalty":
            assert opened.execute_script("return getComputedStyle(arguments[0]).outlineStyle", here) == "solid"
    assert "penalty" in reached
    assert set(map(str, made.model.path_.intervals)) <= set(reached)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 420])
def test_the_page_fits_any_screen(opened, made, artifacts, scheme, width):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    height = opened.execute_script("return document.documentElement.scrollHeight")
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**metrics, "height": height})
    file = artifacts / f"report-{type(made.model).__name__}-{width}-{scheme}.png"
    assert opened.save_screenshot(str(file))
    background = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 200) == (scheme == "dark")
    opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("made", ["houses"], indirect=True)
def test_names_that_try_to_escape_are_only_shown(opened, made):
    assert not opened.execute_script("return document.querySelectorAll('[onerror]').length")
    names = [one.text for one in opened.find_elements(By.CSS_SELECTOR, "#groups h3")]
    assert names == made.model.group_names_
    # A script that got in all the same would not run.
    opened.execute_script(
        "const script = document.createElement('script'); script.textContent = 'window.ran = 1';"
        "document.body.append(script)"
    )
    assert opened.execute_script("return window.ran") is None
    (complaint,) = opened.get_log("browser")
    assert "Content Security Policy" in complaint["message"]


def test_it_prints(opened):
    pdf = opened.print_page()
    assert len(pdf) > 10_000
