"""What a person does with the pages, in a real Chromium."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from assay.store import RunStore
from assay.viewer.export import export_runs
from tests.viewer import made

if TYPE_CHECKING:
    from pathlib import Path

    from tests.viewer.conftest import Look

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
from playwright.sync_api import Page, expect


def told(page: Page) -> Any:
    return page.get_by_role("region", name="Attempts").get_by_role("status")


@pytest.mark.long
def test_from_the_list_of_runs_to_an_attempt(look: Look) -> None:
    page = look.go("")
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    page.get_by_role("searchbox").fill("demo")
    look.follow(page.get_by_role("link", name="demo"))
    expect(told(page)).to_have_text("48 attempts")
    look.follow(page.get_by_role("grid", name="Attempts").get_by_role("link").first)
    expect(page.get_by_role("heading", level=1)).to_contain_text("made/task-")


@pytest.mark.long
def test_filters_and_search_narrow_the_table_and_stand_in_the_address(look: Look) -> None:
    page = look.go("#/run/demo")
    page.get_by_label("Verdicts").get_by_role("button", name=re.compile("^fail")).first.click()
    expect(told(page)).to_have_text("24 of 48 attempts")
    page.get_by_role("searchbox", name="Search attempts").fill("task-5 large")
    expect(told(page)).to_have_text("3 of 48 attempts")
    address = page.url.removeprefix(look.base)
    look.go("")
    look.go(address)
    expect(told(page)).to_have_text("3 of 48 attempts")
    page.get_by_role("button", name="Clear filters").first.click()
    expect(told(page)).to_have_text("48 attempts")


@pytest.mark.long
def test_a_verdict_leads_to_the_very_line_of_its_evidence(look: Look) -> None:
    page = look.go("#/run/demo/attempt/made%2Ftask-5%40loop-small-0.0")
    page.get_by_role("link", name="test_lib.py::test_add FAILED").first.click()
    cited = page.locator(".cited")
    expect(cited).to_be_in_viewport()
    expect(cited).to_contain_text("test_lib.py::test_add FAILED")


@pytest.mark.long
def test_an_attempt_shows_what_was_said_done_and_seen(look: Look) -> None:
    page = look.go("#/run/demo/attempt/made%2Ftask-0%40loop-large-0.0")
    main = page.get_by_role("main")
    for words in ("I look at the files.", "The sign looks wrong.", "return a + b", "1 passed"):
        expect(main.get_by_text(words, exact=False).first).to_be_attached()


@pytest.mark.long
def test_colours_differences_pictures_tokens_and_certificates_are_shown(look: Look) -> None:
    page = look.go("#/run/demo/attempt/made%2Ftask-0%40loop-large-0.0")
    listed, edited = page.get_by_role("article", name="bash: ls"), page.get_by_role("article", name="edit: lib.py")
    expect(listed.locator("[class*=ansi]", has_text="lib.py").first).to_be_visible()
    expect(edited.get_by_text("removed:")).to_be_attached()
    expect(edited.get_by_text("the prompt was rewritten (from token 2)")).to_be_visible()
    edited.get_by_text("Model call").click()
    edited.get_by_role("button", name="Tokens").click()
    sampled = edited.get_by_role("group", name="sampled tokens")
    expect(sampled.get_by_title(re.compile("log-probability -2.500, probability 8.21%"))).to_be_visible()
    page.get_by_role("checkbox", name="Evidence").check()
    page.get_by_role("article", name="screenshot").get_by_role("button", name="open evidence").click()
    picture = page.get_by_role("article", name="screenshot").locator("img[src^='blob:'], img[src^='data:image/png']")
    expect(picture).to_be_visible()
    assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 1


@pytest.mark.long
def test_a_step_says_what_its_model_call_cost(look: Look) -> None:
    page = look.go("#/run/demo/attempt/made%2Ftask-0%40loop-large-0.0")
    expect(page.get_by_role("article", name="bash: ls").locator(".line-head")).to_contain_text("30 in, 4 out · $0.003")
    expect(page.get_by_role("article", name="attempt ended").locator(".spent")).to_have_count(0)
    transcript = look.go("#/run/demo/attempt/made%2Ftask-0%40loop-large-0.0?view=transcript")
    expect(transcript.get_by_role("article", name="Agent, step 0")).to_contain_text("30 in, 4 out · $0.003")


@pytest.mark.long
def test_what_is_shown_is_copied_by_keyboard(look: Look) -> None:
    page = look.go("#/run/demo/attempt/made%2Ftask-0%40loop-large-0.0")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    step = page.get_by_role("article", name="bash: ls")
    for name, text in (("Copy command of bash", "ls"), ("Copy digest of the state", "blake3:")):
        button = step.get_by_role("button", name=name).first
        button.focus()
        page.keyboard.press("Enter")
        expect(button).to_have_text("✓")
        assert page.evaluate("navigator.clipboard.readText()").startswith(text)
        expect(button).to_have_text("")
    page.get_by_text("About this attempt").click()
    page.get_by_role("button", name="Copy task digest").click()
    expect(page.locator("#said")).to_have_text("copied task digest")


TEXTS = (
    ("", "one\ntwo\n"),
    ("one\ntwo\n", ""),
    ("", "\n"),
    ("x\n", "\n"),
    ("a\nb", "a\nc"),
    ("a\nb\n", "a\nb"),
    ("a\nb", "a\nb\nc\n"),
    ("a\nb\nc\n", "a\nB\nc\n"),
    (
        "\n".join(map(str, range(60))) + "\n",
        "\n".join(str(n) for n in range(-1, 60) if n not in (5, 30, 31, 59)) + "\n",
    ),
)


@pytest.mark.long
def test_a_copied_difference_is_a_patch(look: Look, tmp_path: Path) -> None:
    page = look.go("#/run/demo/attempt/made%2Ftask-0%40loop-large-0.0")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    show = "([before, after, label]) => document.body.append(Assay.diff(before, after, label, true))"
    for number, (before, after) in enumerate(TEXTS):
        page.evaluate(show, [before, after, f"difference {number}"])
        button = page.get_by_role("button", name=f"Copy difference {number}")
        button.press("Enter")
        expect(button).to_have_text("✓")
        (tmp_path / "file").write_text(before)
        patch = f"--- a/file\n+++ b/file\n{page.evaluate('navigator.clipboard.readText()')}"
        subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path, check=True)
        assert (tmp_path / "file").read_text() == after, (before, after)
    page.evaluate(show, ["a\r\n", "b\r\n", "difference of carriage returns"])
    page.get_by_role("button", name="Copy difference of carriage returns").press("Enter")
    expect(page.locator("#said")).to_contain_text("not copied: the texts hold invisible characters")


@pytest.mark.long
def test_an_attempt_is_searched_and_filtered(look: Look) -> None:
    page = look.go("#/run/demo/attempt/made%2Ftask-5%40loop-small-0.0")
    lines = page.get_by_role("feed", name="Lines of the attempt").get_by_role("article")
    page.get_by_role("checkbox", name="Failed only").check()
    expect(lines.first).to_contain_text("pytest -q")
    page.get_by_role("checkbox", name="Failed only").uncheck()
    page.get_by_role("searchbox", name="Search this attempt").fill("test_sub PASSED")
    expect(lines).to_have_count(1)
    expect(lines.first).to_contain_text("execution: pytest")


@pytest.mark.long
def test_a_link_to_a_step_shows_that_step(look: Look) -> None:
    page = look.go("#/run/demo/attempt/made%2Ftask-5%40loop-small-0.0/step/2")
    expect(page.get_by_role("article", name="bash: pytest -q")).to_be_in_viewport()
    expect(page.get_by_text("E  assert 1 == 2").first).to_be_visible()


@pytest.mark.long
def test_attempts_are_compared_side_by_side(look: Look) -> None:
    page = look.go("#/run/demo?task=made%2Ftask-2")
    rows = page.get_by_role("grid", name="Attempts").get_by_role("row")
    for words in ("small-0", "small-3"):
        rows.filter(has=page.get_by_role("link", name=re.compile(words))).get_by_role("checkbox").check()
    look.follow(page.get_by_role("link", name="Compare 2 attempts"))
    acts = page.get_by_role("table", name="Actions of the attempts, aligned").get_by_role("rowheader")
    expect(acts).to_have_count(4)
    expect(page.get_by_role("group", name=re.compile("^Paths of the attempts"))).to_be_visible()
    page.get_by_role("checkbox", name="Only differences").check()
    expect(acts).to_have_count(2)
    look.follow(page.get_by_role("link", name=re.compile("step 2")).first)
    expect(page.get_by_role("article", name="bash: pytest -q")).to_be_in_viewport()


@pytest.mark.long
def test_a_task_leads_to_its_attempts(look: Look) -> None:
    page = look.go("#/run/demo/tasks?q=TASK&sort=-share")
    expect(
        page.get_by_role("table", name="Tasks").get_by_role("rowgroup").last.get_by_role("row").first
    ).to_contain_text("task-0")
    page.get_by_role("searchbox", name="Search tasks").fill("task-3")
    expect(page).to_have_url(re.compile(r"#/run/demo/tasks\?q=task-3&sort=-share$"))
    look.follow(page.get_by_role("link", name=re.compile("task-3")).first)
    expect(told(page)).to_have_text("8 of 48 attempts")


@pytest.mark.long
def test_by_keyboard_alone(look: Look) -> None:
    page = look.go("#/run/demo")
    page.keyboard.press("/")
    page.keyboard.type("task-3")
    expect(told(page)).to_have_text("8 of 48 attempts")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    look.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("made/task-3")
    look.press("u")
    expect(page.get_by_role("heading", level=1)).to_have_text("demo")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


@pytest.mark.long
def test_a_run_in_progress_is_kept_up_to_date(look: Look, store: Path) -> None:
    with RunStore.create(store, "live", {"config": {"agent": "loop"}}) as writer:
        writer.append(*made.attempt("live", "made/first", 0, passed=True))
        page = look.go("#/run/live")
        expect(told(page)).to_have_text("1 attempt")
        for number in range(1, 4):
            writer.append(*made.attempt("live", "made/first", number, passed=False))
        expect(told(page)).to_have_text("4 attempts")


@pytest.mark.long
def test_an_attempt_in_progress_is_kept_up_to_date(look: Look, store: Path) -> None:
    chain, bodies = made.attempt("under-way", "made/first", 0, passed=True)
    with RunStore.create(store, "under-way", {"config": {"agent": "loop"}}) as writer:
        writer.append(chain, bodies[:3])
        page = look.go(f"#/run/under-way/attempt/{quote(chain, safe='')}")
        lines = page.get_by_role("feed", name="Lines of the attempt").get_by_role("article")
        expect(lines.filter(has_text="bash: ls")).to_be_visible()
        writer.append(chain, bodies[3:])
        expect(lines.filter(has_text="bash: pytest -q")).to_be_attached()
        expect(page.get_by_text("both tests pass").first).to_be_attached()


@pytest.mark.long
def test_the_theme_can_be_chosen_and_stays(look: Look) -> None:
    page = look.go("#/run/demo")
    seen = []
    for _ in range(3):
        page.keyboard.press("t")
        seen.append(
            page.evaluate("[document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]")
        )
    grounds = dict(seen)
    assert grounds["light"] != grounds["dark"]
    page.reload()
    look.ready()
    assert page.evaluate("document.documentElement.dataset.theme") == seen[-1][0]


@pytest.mark.long
def test_figures_say_the_same_in_a_table_and_are_saved(look: Look, tmp_path: Path) -> None:
    page = look.go("#/run/demo/figures")
    figure = page.get_by_role("figure").filter(has=page.get_by_role("heading", name="pass@1", exact=True))
    figure.get_by_text("pass@1 as a table").click()
    row = figure.get_by_role("row").filter(has_text="large")
    drawn = figure.get_by_role("img").get_attribute("aria-label") or ""
    share = re.search(r"large ([\d.]+%)", drawn)
    assert share is not None
    expect(row).to_contain_text(share[1])
    for name, begins in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with page.expect_download() as download:
            figure.get_by_role("button", name=name).click()
        assert download.value.path().read_bytes().startswith(begins)


@pytest.mark.long
def test_a_figure_fits_a_phone(looking: Callable[..., Any]) -> None:
    with looking(viewport={"width": 360, "height": 700}) as narrow:
        page = narrow.go("#/run/demo/figures")
        expect(page.get_by_role("figure").first.get_by_role("img")).to_be_visible()
        wide = (
            "[...document.querySelectorAll('svg.drawing')].filter((d) => d.getBoundingClientRect().width <= 330).length"
        )
        page.wait_for_function(f"{wide} >= 3")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.long
def test_soundness_shows_what_was_found_against_a_verifier(look: Look) -> None:
    page = look.go("#/run/sound/soundness")
    expect(page.get_by_text("0 of 2 tasks are admitted.")).to_be_visible()
    expect(page.get_by_text("weak, accepts 1 wrong solution")).to_be_visible()
    page.get_by_label("Which tasks").select_option("not admitted")
    look.follow(page.get_by_role("link", name="made/bad"))
    for words in ("an empty answer is paid", "95% (76% to 99%)", "no faketime here"):
        expect(page.get_by_role("main")).to_contain_text(words)
    page.get_by_text("mutant.001").click()
    expect(page.get_by_text("+a <= b")).to_be_visible()
    look.follow(page.get_by_role("link", name="oracle.1"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("made/bad")


@pytest.mark.long
def test_an_export_needs_no_server(looking: Callable[..., Any], store: Path, tmp_path: Path) -> None:
    export_runs(store, ["demo"], tmp_path / "site")
    base = (tmp_path / "site" / "index.html").as_uri()
    with looking(base) as disk:
        page = disk.go("#/run/demo")
        page.get_by_role("searchbox", name="Search attempts").fill("task-4")
        expect(told(page)).to_have_text("8 of 48 attempts")
        disk.follow(page.get_by_role("grid", name="Attempts").get_by_role("link").first)
        expect(page.get_by_role("main")).to_contain_text("I run the tests.")
        for part in ("figures", "soundness"):
            disk.go(f"#/run/demo/{part}")
