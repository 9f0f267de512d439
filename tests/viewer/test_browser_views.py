"""The views of one attempt beside its log, and pages over several runs, in a real Chromium."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay.records import AttemptStarted, Evidence, EvidenceAdded
from assay.store import RunStore
from tests.sampling import draw_sample
from tests.viewer import made

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.viewer.conftest import Look

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
from playwright.sync_api import expect

from scripts.screenshots import OVERFLOW, PICTURES
from tests.viewer.test_browser_safety import ROUTES, inert
from tests.viewer.test_step_files import change, edit, record, shell, state

ATTEMPT = "#/run/nightly-0-loop-qwen3-4b/attempt/showcase%2Fparse-duration%400.0"


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize("view", ["transcript", "changes", "time"])
def test_views_of_a_hostile_attempt_are_inert(look: Look, view: str) -> None:
    inert(look.go(f"#/run/hostile/attempt/h%400.0?view={view}"))


@pytest.mark.long
def test_runs_are_grouped_filtered_chosen_and_overlaid(look: Look) -> None:
    page = look.go("#/?q=nightly")
    table = page.get_by_role("region", name="Runs")
    expect(table.get_by_role("row").filter(has_text="grid of 2")).to_be_visible()
    page.get_by_label("State of runs").select_option("sealed")
    expect(page.get_by_role("status").filter(has_text="1 run")).to_be_visible()
    expect(page).to_have_url(re.compile(r"#/\?q=nightly&state=sealed$"))
    page.get_by_label("State of runs").select_option("")
    page.get_by_role("checkbox", name="Select all runs of nightly").check()
    look.follow(page.get_by_role("link", name="Overlay 2 runs"))
    expect(page.get_by_role("img", name="pass@1. 0-loop-qwen3-4b 38%; 1-loop-qwen3-14b 83%")).to_be_visible()
    expect(page.get_by_role("region", name="Tasks by runs, drawn")).to_be_visible()


@pytest.mark.long
def test_all_runs_are_searched_and_a_task_has_a_page(look: Look) -> None:
    page = look.go("")
    page.get_by_role("searchbox", name="Search runs").fill("help the verifier")
    look.follow(page.get_by_role("button", name="Search in all steps"))
    look.follow(page.get_by_role("link", name="showcase/parse-duration@0 · step 0 · message"))
    look.follow(page.get_by_role("link", name="All attempts at this task"))
    expect(page.get_by_role("heading", level=1)).to_have_text("showcase/parse-duration")
    expect(page.get_by_text("pass (integrity failed)")).to_be_visible()
    expect(page.get_by_role("link", name="Compare the first 4").first).to_be_visible()


@pytest.mark.long
def test_a_row_opens_its_attempt(look: Look) -> None:
    page = look.go("#/run/nightly-1-loop-qwen3-14b")
    rows = page.get_by_role("grid", name="Attempts").get_by_role("row")
    tops = (
        rows.nth(1)
        .get_by_role("gridcell")
        .evaluate_all("(cells) => new Set(cells.map((cell) => Math.round(cell.getBoundingClientRect().top / 8))).size")
    )
    assert tops <= 2, "a row is one line"
    look._leave()
    rows.nth(1).get_by_role("gridcell").filter(has_text="separate").click()
    expect(look.ready().get_by_role("heading", level=1)).to_have_text("showcase/parse-duration@0")


@pytest.mark.long
def test_pages_over_hostile_runs_are_inert(look: Look) -> None:
    inert(look.go("#/overlay/hostile+forger"))
    inert(look.go("#/task/made%2F%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D1%3E"))
    inert(look.go("#/search?q=window.pwned"))
    expect(look.page.get_by_text("window.pwned").first).to_be_visible()


@pytest.mark.long
def test_a_person_tags_and_notes_an_attempt(look: Look, store: Path) -> None:
    with RunStore.create(store, "noted", {}) as writer:
        writer.append(*made.attempt("noted", "made/first", 0, passed=True))
    page = look.go("#/run/noted/attempt/made%2Ffirst%40loop-small-0.0")
    notes = page.get_by_role("region", name="Notes and tags")
    notes.get_by_role("textbox", name="Add a tag").fill("<b>Odd</b>")
    page.keyboard.press("Enter")
    expect(notes).to_contain_text("<b>odd</b>")
    notes.get_by_text("Add a note").click()
    notes.get_by_role("textbox", name="Note").fill("Look at step 2: \u202e")
    notes.get_by_role("button", name="Add to the record").click()
    expect(notes).to_contain_text("Look at step 2: RLO")
    page = look.go("#/run/noted")
    page.get_by_role("button", name="<b>odd</b>").click()
    expect(page.get_by_role("searchbox", name="Search attempts")).to_have_value("tag:<b>odd</b>")
    expect(page.get_by_role("grid", name="Attempts").get_by_role("link")).to_have_count(1)


@pytest.mark.long
def test_failures_lead_to_examples(look: Look) -> None:
    page = look.go("#/run/nightly-0-loop-qwen3-4b/failures")
    expect(page.get_by_text("stopped: turns")).to_be_visible()
    look.follow(page.get_by_role("link", name="showcase/rotate-log@0").first)
    expect(page.get_by_role("heading", level=1)).to_have_text("showcase/rotate-log@0")


@pytest.mark.long
def test_a_training_is_drawn_while_it_runs(look: Look, store: Path) -> None:
    began = AttemptStarted("t-training", "t-training@trainer", "t", "d", "trainer", None, 0, 0)
    with RunStore.create(store, "t-training", {"training": {}}) as writer:
        writer.append("t-training@trainer", [began, measured(1, 0.9), measured(2, 0.5)])
        page = look.go("#/run/t-training/training")
        expect(page.get_by_role("img", name="Loss. loss ends at 0.5", exact=True)).to_be_visible()
        expect(page.get_by_text("running").first).to_be_visible()
        writer.append("t-training@trainer", [measured(3, 0.25)])
        expect(page.get_by_role("img", name="Loss. loss ends at 0.25")).to_be_visible()


def measured(step: int, loss: float) -> EvidenceAdded:
    return EvidenceAdded(Evidence(f"sft {step}", "audit", "training", {"loss": loss}))


@pytest.mark.long
def test_no_page_is_wider_than_a_phone(looking: Callable[..., Any]) -> None:
    with looking(viewport={"width": 390, "height": 844}) as phone:
        for route in draw_sample([*dict.fromkeys([*(picture.route for picture in PICTURES), *ROUTES.values()])], 14):
            page = phone.go(route)
            page.wait_for_timeout(150)
            assert not page.evaluate(OVERFLOW), route


@pytest.mark.long
def test_changes_show_the_difference_of_each_step(look: Look) -> None:
    page = look.go(f"{ATTEMPT}?view=changes")
    steps = page.locator(".change[data-basis=states]")
    expect(steps).to_have_count(2)
    first = steps.first
    expect(first.locator("summary")).to_contain_text("step 1")
    expect(first.locator(".diff-added")).to_have_count(1)
    expect(first.locator(".diff-removed")).to_contain_text('"h": 60')
    expect(steps.nth(1).locator(".change-head code")).to_have_text(["/workspace/NOTES.md", "/workspace/durations.py"])
    expect(steps.nth(1).locator(".diff-added")).to_have_count(2)


@pytest.mark.long
def test_a_step_says_what_its_difference_rests_on(look: Look, store: Path) -> None:
    final = [change("/work/lib.py", "x = 2\n"), change("/work/b", "\0", "added")]
    made_steps = [(shell("./generate"), "one"), (edit("lib.py", "x = 1", "x = 2"), "two")]
    record(store, [*made_steps, (shell("./pack"), state(*final))], ["x = 2\n", "\0"], final, run="stepped")
    page = look.go("#/run/stepped/attempt/t%400.0?view=changes")
    steps = page.locator(".change[data-basis=named]")
    expect(steps).to_have_count(2)
    steps.first.locator("summary").click()
    expect(steps.first).to_contain_text("Contents are stored for the final state only")
    expect(steps.first.get_by_text("removed:")).to_be_attached()
    record(store, [(shell("./pack"), state(*final))], ["x = 2\n", "\0"], final, run="stepped-once")
    page = look.go("#/run/stepped-once/attempt/t%400.0?view=changes")
    step = page.locator(".change[data-basis=states]")
    expect(step).to_contain_text("Compared with the start of the attempt")
    expect(step).to_contain_text("The content is binary.")


@pytest.mark.long
def test_a_warning_stands_before_the_task_and_verdicts_beside_it(look: Look) -> None:
    page = look.go("#/run/forger/attempt/showcase%2Fparse-duration%400.0")
    warning = page.get_by_role("region", name="Against this attempt").bounding_box()
    task = page.get_by_role("group", name="Text of the task").bounding_box()
    verdict = page.locator(".verdict").first.bounding_box()
    assert warning is not None
    assert task is not None
    assert verdict is not None
    assert warning["y"] < task["y"]
    assert verdict["x"] > task["x"] + task["width"] - 1
    assert abs(verdict["y"] - task["y"]) < 80


@pytest.mark.long
def test_the_list_of_a_run_is_read_through_as_it_was_filtered(look: Look) -> None:
    page = look.go("#/run/nightly-0-loop-qwen3-4b?q=csv-totals")
    links = page.get_by_role("grid", name="Attempts").get_by_role("link")
    expect(links).to_have_count(4)
    look.follow(links.first)
    listed = page.get_by_role("navigation", name="Attempts of the list")
    expect(listed).to_contain_text("1 of 4")
    look.follow(listed.get_by_role("link", name="Next"))
    expect(listed).to_contain_text("2 of 4")
    look.press("<")
    expect(listed).to_contain_text("1 of 4")
    expect(listed.get_by_role("link", name="Previous")).to_have_count(0)


@pytest.mark.long
def test_an_attempt_opened_by_its_address_has_no_list(looking: Callable[..., Any]) -> None:
    with looking() as look:
        page = look.go(ATTEMPT)
        expect(page.get_by_text("4 attempts at this task")).to_be_visible()
        expect(page.get_by_role("navigation", name="Attempts of the list")).to_have_count(0)


@pytest.mark.long
def test_all_calls_of_a_transcript_open_and_fold(look: Look) -> None:
    page = look.go(f"{ATTEMPT}?view=transcript")
    output = page.get_by_role("feed", name="Transcript").get_by_role("group", name="output")
    expect(output).to_have_count(0)
    page.get_by_role("button", name="Open all calls and outputs").click()
    expect(output.first).to_be_visible()
    page.get_by_role("button", name="Fold all calls and outputs").click()
    expect(output).to_have_count(0)


@pytest.mark.long
def test_runs_say_how_many_attempts_passed(look: Look) -> None:
    page = look.go("")
    row = page.get_by_role("row").filter(has_text="nightly-1-loop-qwen3-14b")
    expect(row).to_contain_text("20 of 24 passed")
    expect(page.get_by_role("row").filter(has_text="forger")).to_contain_text("0 of 1 passed1 doubtful")


@pytest.mark.long
def test_the_open_tab_is_in_sight_on_a_narrow_screen(looking: Callable[..., Any]) -> None:
    with looking(viewport={"width": 390, "height": 800}) as look:
        tabs = look.go("#/run/nightly-0-loop-qwen3-4b/soundness").get_by_role("navigation", name="Pages of this run")
        expect(tabs.get_by_role("link", name="Soundness")).to_be_in_viewport(ratio=0.9)


@pytest.mark.long
def test_curves_are_named(look: Look) -> None:
    page = look.go("#/run/duration-rl-0-training/training")
    for name in ("Loss", "Success of the step's attempts", "Entropy", "Policy lag", "Attempts dropped as stale"):
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    expect(page.get_by_text("Updates between the weights that sampled the tokens").first).to_be_visible()
