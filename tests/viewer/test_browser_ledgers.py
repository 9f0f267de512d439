"""The pages of skills, searches and trees, in a real Chromium."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.viewer.test_ledgers import write_lines

if TYPE_CHECKING:
    from tests.viewer.conftest import Look

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
from playwright.sync_api import expect

from tests.viewer.test_browser_safety import inert

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_from_the_runs_to_a_search_and_what_it_claimed(look: Look) -> None:
    page = look.go("")
    look.follow(page.get_by_role("link", name="Skills and searches"))
    look.follow(page.get_by_role("link", name="fact-prompts"))
    table = page.get_by_role("region", name="Claimed and true")
    expect(table.get_by_role("row").nth(1)).to_contain_text("33.0%92.0%+59.0")
    expect(table.get_by_role("row").nth(2)).to_contain_text("26.5%79.4%+52.9")
    expect(page.get_by_role("img", name="Success against cost. present: 33% at 1")).to_be_visible()
    expect(page.get_by_role("region", name="Candidates, table").get_by_role("row")).to_have_count(7)


@pytest.mark.long
def test_a_line_of_releases_shows_each_decision(look: Look) -> None:
    page = look.go("#/ledgers")
    look.follow(page.get_by_role("link", name="nightly", exact=True))
    rows = page.get_by_role("region", name="Release candidates, table").get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("loop-3loop-2")
    expect(rows.nth(1)).to_contain_text("refused")
    expect(page.get_by_text("Present release: loop-2")).to_be_visible()


@pytest.mark.long
def test_a_skill_shows_edits_trials_and_the_use_of_held_out_tasks(look: Look) -> None:
    page = look.go("#/skill/crown-rules")
    entries = page.get_by_role("list", name="Entries, the newest first").locator("> li")
    expect(entries).to_have_count(4)
    expect(entries.first).to_contain_text("refused")
    expect(entries.nth(1)).to_contain_text("go to a new room: x1.4")
    expect(entries.nth(2).get_by_role("region", name="Arms of the trial").get_by_role("row")).to_have_count(4)
    expect(page.get_by_role("region", name="Use of held-out tasks, table")).to_contain_text("0.0050")


@pytest.mark.long
def test_the_tree_of_a_search_leads_to_the_steps_of_its_judged_path(look: Look) -> None:
    page = look.go("#/run/searched/attempt/adventure-5-1%400.0?view=tree")
    expect(page.get_by_role("img", name="Tree of the search. 64 acts")).to_be_visible()
    look.follow(page.get_by_role("region", name="Tree of the search, table").get_by_role("link").last)
    expect(page.get_by_role("feed", name="Lines of the attempt")).to_be_visible()
    page = look.go("#/run/forger/attempt/showcase%2Fparse-duration%400.0")
    expect(page.get_by_role("link", name="Time")).to_be_visible()
    expect(page.get_by_role("link", name="Tree")).to_have_count(0)


@pytest.mark.long
def test_a_hostile_ledger_is_inert_and_says_what_is_wrong(look: Look, store: Path) -> None:
    bad = "<img src=x onerror=window.pwned=1>"
    entry = {
        "kind": "edit",
        "version": bad,
        "at": "x",
        "reason": bad,
        "proposal": {"reason": bad, "edits": [{"op": bad, "line": bad, "text": bad}, 3]},
    }
    trial = {
        "kind": "trial",
        "version": 3,
        "trial": {"accepted": True, "alpha": bad, "reasons": [bad, 4], "arms": [{"name": bad, "runs": [bad]}, None]},
    }
    write_lines(
        store / "tables" / "hostile.jsonl",
        {"verb": bad, "runs": [bad], "columns": [bad], "rows": [[bad]], "chains": [bad], "notes": [bad], "at": bad},
    )
    inert(look.go("#/tables/hostile"))
    odd = {"toString": 1, "valueOf": 1}  # `String` of it fails
    claim = {"text": odd, "taken": odd, "evidence": [{"run": odd, "chain": odd, "attempt": odd}]}
    far = {"kind": "candidate", "options": odd, "tasks": 5, "rate": 1e299, "turns": -1e299}
    write_lines(store / "evolution" / "hostile.jsonl", far, {**far, "kind": "gate"})
    inert(look.go("#/evolution/hostile"))
    path = write_lines(
        store / "skills" / "hostile" / "ledger.jsonl",
        entry,
        trial,
        {"kind": bad, "claims": [{"text": bad, "evidence": [{}]}]},
        {"kind": odd, "reason": odd, "claims": [claim], "trial": {"alpha": odd, "looks": odd, "arms": [{"name": odd}]}},
    )
    page = look.go("#/skill/hostile")
    inert(page)
    expect(page.get_by_text(bad).first).to_be_visible()
    path.write_bytes(path.read_bytes() + b"{}\n")
    expect(look.go("#/ledgers").get_by_text("a line before it was changed")).to_be_visible()


@pytest.mark.long
def test_a_figure_of_many_equal_points_names_a_bounded_number_of_them(look: Look, store: Path) -> None:
    same = {"kind": "candidate", "tasks": 5, "rate": 0.5, "turns": 2}
    write_lines(store / "evolution" / "equal.jsonl", *({**same, "options": {"x": at}} for at in range(400)))
    page = look.go("#/evolution/equal")
    figure = page.get_by_role("img", name="Success against cost.")
    expect(figure.locator(".point")).to_have_count(400)
    expect(figure.locator("text.label")).to_have_count(60)


@pytest.mark.long
def test_tables_that_verbs_saved_have_a_page_with_links_to_attempts(look: Look, store: Path) -> None:
    def assay(*words: str) -> None:  # Playwright's event loop runs in this process
        command = [sys.executable, "-m", "assay", *words, "--store", str(store)]
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)

    assay("run", "family:tables,n=4", "--agent", "expert", "--run", "tabled")
    label = ("--config", "docs_src/tiers.toml", "--every", "50", "--forks", "1", "--save", "routes")
    assay("router", "label", "--run", "tabled", *label)
    labels = next(one.name for one in (store / "runs").iterdir() if one.name.endswith("-tiers"))
    assay("router", "score", labels, "--route", "after-error", "--save", "routes")
    team = ("--agent", "team", "--agent-option", "file=docs_src/team.toml")
    assay("run", "family:split-constraints,n=2,variables=4,values=3", *team, "--run", "searchers")
    assay("stats", "searchers", "--table", "evidence", "--save", "routes")
    refunds = ("family:docs_src/refund_world.py:RefundTasks,n=2,seed=5", "--agent", "random-world", "--run", "random")
    assay("run", *refunds)
    assay("workflow", "follow", "docs_src/refund.toml", "random", "--save", "refunds")
    page = look.go("#/ledgers")
    look.follow(page.get_by_role("link", name="routes", exact=True))
    expect(page.get_by_role("heading", level=2)).to_have_text(["stats, table evidence", "router score", "router label"])
    scores = page.get_by_role("region", name="router score, table").get_by_role("row")
    expect(scores.nth(1)).to_contain_text("after-error")
    expect(page.get_by_role("region", name="stats, table evidence, table")).to_contain_text("(all)")
    look.follow(page.get_by_role("link", name="searchers"))
    page = look.go("#/tables/refunds")
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        expect(page.get_by_text("0.000 of an attempt's calls follow refund; 0 finished it")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == width
    look.follow(page.get_by_role("region", name="workflow follow, table").get_by_role("link").first)
    expect(page.get_by_role("feed", name="Lines of the attempt")).to_be_visible()


@pytest.mark.long
def test_the_page_of_an_attempt_shows_where_the_alarm_rang_and_the_node_of_each_step(look: Look, store: Path) -> None:
    place = ROOT / "docs_src"
    tasks = f"family:{place / 'refund_world.py'}:RefundTasks,n=4,seed=5,wrap=failures:rate=0.3"
    words = ["run", tasks, "--agent", "workflow", "--agent-option", f"file={place / 'refund.toml'}", "--run", "flow"]
    command = [sys.executable, "-m", "assay", *words, "--store", str(store)]
    subprocess.run(command, check=True, capture_output=True)  # Playwright's event loop runs in this process
    for width in (1280, 390):
        page = look.go("#/run/flow")
        page.set_viewport_size({"width": width, "height": 900})
        look.go("#/run/flow/attempt/refund-desk-wrap.24523471-5-3%400.0")
        panel = page.get_by_role("region", name="Alarms and workflow")
        expect(panel).to_contain_text("step 0 by agent (action: parameter_error)")
        expect(panel).to_contain_text("5 of 5 calls follow it; it came to its end. The agent recorded this itself.")
        lines = page.get_by_role("feed", name="Lines of the attempt").get_by_role("article")
        expect(lines.nth(0)).to_contain_text("alarm")
        expect(lines.nth(0).locator(".node-tag")).to_have_text("node find")
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.set_viewport_size({"width": 1280, "height": 900})
