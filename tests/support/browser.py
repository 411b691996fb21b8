"""A real headless Chromium, driven by its own driver. What it logs is kept. Names below `example` are this machine."""

import contextlib
import shutil

import pytest

from tests.support.aio import HANG_S


@pytest.fixture(scope="module")
def browser():
    """The driver of a browser. The test is skipped by name if there is none."""
    chromium, driver_path = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if chromium is None or driver_path is None:
        pytest.skip("no Chromium with its driver (Debian: apt-get install chromium chromium-driver)")
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--window-size=1200,900",
        "--host-resolver-rules=MAP *.example 127.0.0.1",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(driver_path))
    try:
        yield driver
    finally:
        with contextlib.suppress(Exception):
            driver.quit()


def until(driver, condition):
    """Wait until `condition(driver)` is true of the page, and return its value. Raises TimeoutException."""
    from selenium.webdriver.support.wait import WebDriverWait

    return WebDriverWait(driver, HANG_S).until(condition)


def console(driver):
    """What the page has written to its console since the last call."""
    return [entry["message"] for entry in driver.get_log("browser")]


def as_phone(driver, width=390):
    """Show pages as a phone of that width does, beginning with the next page."""
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def in_scheme(driver, scheme):
    """Set the reader's preference to `light` or `dark`."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
