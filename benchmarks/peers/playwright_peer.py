"""Steps of plain Playwright on a page: click, accessibility tree, picture; run by `benchmarks.browser`.

Each line of the input is a request, and each line of the output its answer: first the page, then numbers of steps,
which are answered with their milliseconds.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from playwright.sync_api import sync_playwright

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


def main() -> None:
    """Answers requests until the input ends."""
    first = json.loads(sys.stdin.readline())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=sys.argv[1], args=list(ARGUMENTS))
        context = browser.new_context(viewport={"width": first["width"], "height": first["height"]})
        page = context.new_page()
        page.route("**/*", lambda route: route.fulfill(body=first["page"], content_type="text/html"))
        page.goto("http://page.test/")
        print("[]", flush=True)
        for line in sys.stdin:
            print(json.dumps([step(page) for _ in range(json.loads(line)["steps"])]), flush=True)
        browser.close()


def step(page: Any) -> float:
    """Returns the milliseconds of a step."""
    began = time.perf_counter()
    page.locator("#b").click()
    tree = page.locator("body").aria_snapshot()
    picture = page.screenshot()
    assert tree
    assert picture
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    main()
