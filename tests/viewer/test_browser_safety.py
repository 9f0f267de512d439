"""Hostile records are inert, and no page has a serious violation of accessibility, in a real Chromium."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay.viewer.export import export_runs
from tests.sampling import draw_sample
from tests.viewer import made

if TYPE_CHECKING:
    from tests.viewer.conftest import Look

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
from playwright.sync_api import Page, expect

ROUTES = {
    "runs": "",
    "run": "#/run/demo",
    "tasks": "#/run/demo/tasks",
    "attempt": "#/run/demo/attempt/made%2Ftask-5%40loop-small-0.0",
    "compare": "#/run/demo/compare/made%2Ftask-2%40loop-small-0.0+made%2Ftask-2%40loop-large-0.0",
    "figures": "#/run/demo/figures",
    "soundness": "#/run/sound/soundness",
    "soundness of a task": "#/run/sound/soundness/made%2Fbad%40certificate.0",
    "transcript": "#/run/forger/attempt/showcase%2Fparse-duration%400.0?view=transcript",
    "changes": "#/run/forger/attempt/showcase%2Fparse-duration%400.0?view=changes",
    "time": "#/run/nightly-0-loop-qwen3-4b/attempt/showcase%2Fparse-duration%400.0?view=time",
    "overlay": "#/overlay/nightly-0-loop-qwen3-4b+nightly-1-loop-qwen3-14b",
    "task": "#/task/showcase%2Fparse-duration",
    "search": "#/search?q=3600",
    "ledgers": "#/ledgers",
    "skill": "#/skill/crown-rules",
    "evolution": "#/evolution/fact-prompts",
    "releases": "#/releases/nightly",
    "tree": "#/run/searched/attempt/adventure-5-1%400.0?view=tree",
    "failures": "#/run/nightly-0-loop-qwen3-4b/failures",
    "training": "#/run/duration-rl-0-training/training",
    "hostile attempt": "#/run/hostile/attempt/h%400.0",
}
ACTIVE = """() => {
  const tags = /^(script|iframe|object|embed|base|form|link|meta|style)$/i;
  const isActive = (a) => /^on/i.test(a.name) || /^\\s*javascript:/i.test(a.value);
  return [...document.body.querySelectorAll("*")].flatMap((element) => [
    ...(tags.test(element.tagName) ? [element.tagName] : []),
    ...[...element.attributes].filter(isActive).map((a) => a.name)]);
}"""


UNEVEN = """() => [...document.querySelectorAll("table")].filter((table) => table.tHead).flatMap((table) => {
  const seen = (row) => [...row.cells].filter((cell) => cell.checkVisibility());
  const wide = (row) => seen(row).reduce((sum, cell) => sum + cell.colSpan, 0);
  const heads = wide(table.tHead.rows[0]);
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
  return rows.filter((row) => wide(row) !== heads).map((row) => row.innerText);
})"""


def inert(page: Page) -> None:
    """Nothing of a record became an element, a handler or a script."""
    assert page.evaluate("window.pwned") is None
    assert page.evaluate(ACTIVE) == []
    assert page.title().isprintable()
    shown = page.inner_text("body")
    assert not [c for c in "\x1b\u202e\u2066\u200b\x00\x07" if c in shown]


@pytest.mark.long
@pytest.mark.parametrize(
    "part", ["", "/tasks", "/figures", "/soundness", "/failures", "/training", "/compare/h%400.0+h%401.0"]
)
def test_a_hostile_record_is_inert(look: Look, part: str) -> None:
    page = look.go(f"#/run/hostile{part}")
    inert(page)


@pytest.mark.long
def test_hostile_text_is_shown_as_text_and_a_line_of_ten_megabytes_is_not_loaded_whole(look: Look) -> None:
    page = look.go("#/run/hostile/attempt/h%400.0")
    inert(page)
    expect(page.get_by_text("<script>window.pwned = 'script'</script>").first).to_be_attached()
    expect(page.locator(".mark", has_text="RLO").first).to_be_attached()
    assert page.locator("a[href^='http']").count() == 0
    page.keyboard.press("End")
    expect(page.get_by_text("a long line follows").first).to_be_attached()
    assert page.evaluate("document.body.textContent.length") < 2_000_000


@pytest.mark.long
def test_a_hostile_export_is_inert(looking: Callable[..., Any], store: Path, tmp_path: Path) -> None:
    export_runs(store, ["hostile"], tmp_path / "site")
    with looking((tmp_path / "site" / "index.html").as_uri()) as disk:
        for part in ("", "/attempt/h%400.0"):
            inert(disk.go(f"#/run/hostile{part}"))


def test_an_address_without_the_secret_gets_nothing(look: Look) -> None:
    answer = look.page.request.get(look.base.rstrip("/").rpartition("/")[0] + "/wrong/")
    assert (answer.status, "demo" in answer.text()) == (404, False)


@pytest.mark.long
@pytest.mark.parametrize("name", draw_sample(sorted(ROUTES), 9))
def test_tables_are_even_and_nothing_keeps_anybody_out(look: Look, name: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    look.page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page = look.go(ROUTES[name])
    assert page.evaluate(UNEVEN) == []
    found = axe.Axe().run(page).response["violations"]
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found += axe.Axe(axe_script="").run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in grave] == []


def test_the_made_hostile_text_is_hostile() -> None:
    assert all(sign in made.HOSTILE for sign in ("<script>", "onerror", "javascript:", "\x1b]8;;", "\u202e", "\x00"))
    assert len(made.HUGE) == 10 << 20
