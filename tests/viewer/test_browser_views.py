"""The views of one attempt beside its log, and pages over several runs, in a real Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.viewer.conftest import Look

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
from playwright.sync_api import expect

from tests.viewer.test_browser_safety import inert

pytestmark = pytest.mark.slow
ATTEMPT = "#/run/nightly-0-loop-qwen3-4b/attempt/showcase%2Fparse-duration%400.0"


def test_an_attempt_begins_with_its_task_and_folds_its_records(look: Look) -> None:
    page = look.go(ATTEMPT)
    expect(page.get_by_role("group", name="Text of the task")).to_contain_text("is wrong")
    lines = page.get_by_role("feed", name="Lines of the attempt").get_by_role("article")
    expect(lines.first).to_contain_text("bash: ls && cat durations.py")
    edit = lines.nth(1)
    expect(edit.get_by_text("removed:")).to_be_attached()
    edit.get_by_role("heading").click()
    expect(edit.get_by_text("removed:")).not_to_be_attached()
    lines.first.get_by_role("button", name="4 records").click()
    expect(lines.first).to_contain_text("attempt started")


def test_the_other_views_of_an_attempt(look: Look) -> None:
    page = look.go(f"{ATTEMPT}?view=transcript")
    said = page.get_by_role("feed", name="Transcript").get_by_role("article")
    expect(said.filter(has_text="An hour has 3600 seconds")).to_be_visible()
    said.nth(1).get_by_text("edit", exact=True).first.click()
    expect(said.nth(1).get_by_text("removed:")).to_be_attached()
    page.get_by_role("link", name="Changes").click()
    expect(page.get_by_role("heading", name="In all: 2 files")).to_be_visible()
    expect(page.get_by_label("difference of /workspace/durations.py").get_by_text("removed:").first).to_be_attached()
    page.get_by_role("link", name="Time").click()
    expect(page.get_by_role("img", name="Time by model, tools and verification. Model 12.4 s")).to_be_visible()
    page.get_by_role("region", name="Time, table").get_by_role("link").first.click()
    expect(page.get_by_role("feed", name="Lines of the attempt")).to_be_visible()


def test_a_forged_attempt_says_so_first(look: Look) -> None:
    page = look.go("#/run/forger/attempt/showcase%2Fparse-duration%400.0")
    warning = page.get_by_role("region", name="Against this attempt")
    expect(warning).to_contain_text("reward-forged (obtained) wrote a reward where the verifier writes it")


@pytest.mark.parametrize("view", ["transcript", "changes", "time"])
def test_views_of_a_hostile_attempt_are_inert(look: Look, view: str) -> None:
    inert(look.go(f"#/run/hostile/attempt/h%400.0?view={view}"))
