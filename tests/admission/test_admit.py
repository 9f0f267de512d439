"""`assay admit` on real task folders in real sandboxes: what it finds, what it keeps, and what it lets pass."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import Result
from typer.testing import CliRunner

from assay.admission.report import SetReport
from assay.cli.app import build_app
from assay.store import audit
from scripts.make_reference import JSON
from tests.admission.folders import CAREFUL, CARELESS, write_task

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


class Done(NamedTuple):
    folder: Path
    code: int
    told: dict[str, Any]

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def assay(self, *words: str) -> Result:
        return CliRunner().invoke(build_app(), [*words, "--store", str(self.store)])

    def findings(self, task: str, part: str = "report") -> list[dict[str, Any]]:
        return next(t["findings"] for t in self.told[part]["tasks"] if t["task"] == f"admission/{task}")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("admit")
    for name, tests in (("careful", CAREFUL), ("careless", CARELESS)):
        write_task(folder / "tasks" / name, tests)
    words = ["admit", str(folder / "tasks"), "--quick", "--verification", "both", "--run", "first"]
    more = ["--fix", str(folder / "fixed"), "--output", str(folder / "out"), "--json", "--store", str(folder / "store")]
    result = CliRunner().invoke(build_app(), [*words, *more])
    return Done(folder, result.exit_code, json.loads(result.stdout))


def kinds(found: list[dict[str, Any]], verification: str) -> set[tuple[str, str | None]]:
    return {(f["kind"], f["probe"]) for f in found if f["verification"] == verification}


def test_a_sound_task_is_admitted_and_a_holed_one_is_not(done: Done) -> None:
    admitted = {t["task"]: t["admitted"]["default"] for t in done.told["report"]["tasks"]}
    assert admitted == {"admission/careful": True, "admission/careless": False}
    assert done.code == 1


def test_a_hole_names_what_got_through_and_under_which_verification(done: Done) -> None:
    assert kinds(done.findings("careless"), "default") == {
        ("null-passed", "null.empty"),
        ("null-passed", "null.comments"),
    }
    asked = kinds(done.findings("careful"), "as_asked")
    assert {("cheat-passed", "cheat.late-writer")} <= asked


def test_a_hole_that_the_default_verification_closes_says_what_closed_it(done: Done) -> None:
    found = next(f for f in done.findings("careful") if f["probe"] == "cheat.late-writer")
    assert "Judged by default it does not" in found["text"]
    assert {"fresh fork", "separate verifier"} <= set(found["closed_by"])
    assert found["evidence"] == ["admission/careful@cheat.late-writer.as-asked"]


def test_a_copy_with_its_own_image_for_the_verifier_closes_what_the_living_sandbox_opened(done: Done) -> None:
    fixed = {f["task"]: f for f in done.told["fixed"]}
    assert fixed["admission/careful"]["settings"] == ["separate verifier"]
    assert 'environment_mode = "separate"' in (done.folder / "fixed" / "careful" / "task.toml").read_text()
    assert done.findings("careful", "fixed_report") == []
    assert "separate" not in (done.folder / "tasks" / "careful" / "task.toml").read_text()


def test_the_record_holds_and_is_no_ordinary_run(done: Done) -> None:
    assert audit(done.store, "first") == ()
    assert "assay admit --resume first" in done.assay("resume", "first").output
    assert "admission " not in done.assay("stats", "first").stdout


def test_a_finished_admission_tells_its_report_again(done: Done) -> None:
    again = done.assay("admit", "--resume", "first", "--json")
    assert again.exit_code == 1
    assert json.loads(again.stdout)["report"] == done.told["report"]


def test_the_report_is_written_for_people_and_programs(done: Done) -> None:
    assert set(done.told) == set(JSON["admit"][0])
    assert msgspec.convert(done.told["report"], SetReport).run == "first"
    assert json.loads((done.folder / "out" / "report.json").read_text()) == done.told["report"]
    text = (done.folder / "out" / "report.md").read_text()
    assert "| admission/careless | **not admitted** |" in text
    assert "null-passed `null.empty` (default)" in text
    assert text.count("Not tested:") == 1


def test_what_was_found_can_be_asked_in_sql(done: Done) -> None:
    sql = "select task, admitted, admitted_as_asked from certificates where run = 'first' order by task"
    rows = json.loads(done.assay("query", sql, "--json").stdout)["rows"]
    assert [(r["admitted"], r["admitted_as_asked"]) for r in rows] == [(True, False), (False, False)]
    sql = "select probe from findings where run = 'first' and severity = 'hole' and verification = 'default' order by 1"
    found = json.loads(done.assay("query", sql, "--json").stdout)["rows"]
    assert [row["probe"] for row in found] == ["null.comments", "null.empty"]


def test_a_run_of_admitted_tasks_refuses_the_others_and_says_how_to_go_on(done: Done) -> None:
    tasks = done.folder / "tasks"
    assert done.assay("run", str(tasks / "careful"), "--admitted", "--run", "good").exit_code == 0
    refused = done.assay("run", str(tasks), "--admitted", "--run", "bad")
    assert refused.exit_code == 2
    assert "1 of 2 tasks are not admitted" in refused.output
    assert "admission/careless: not admitted; assay query" in refused.output
    assert "assay admit" in refused.output
    assert not (done.store / "runs" / "bad").exists()


def test_a_task_that_changed_has_no_certificate(done: Done, tmp_path: Path) -> None:
    changed = write_task(tmp_path / "careful", CAREFUL.replace("42", "43"))
    refused = done.assay("run", str(changed), "--admitted", "--run", "changed")
    assert (refused.exit_code, "no certificate for the current version of the task" in refused.output) == (2, True)


def test_a_certificate_that_was_changed_is_none(done: Done) -> None:
    database = sqlite3.connect(done.store / "runs" / "first" / "run.sqlite")
    chain = "admission/careless@certificate.0"
    one = "SELECT seq, body FROM events WHERE chain = ? AND CAST(body AS TEXT) LIKE '%rests_on%'"
    (seq, body) = database.execute(one, (chain,)).fetchone()
    forged = body.replace(b'"default":false', b'"default":true')
    assert forged != body
    try:
        database.execute("UPDATE events SET body = ? WHERE seq = ?", (forged, seq))
        database.commit()
        refused = done.assay("run", str(done.folder / "tasks" / "careless"), "--admitted", "--run", "forged")
    finally:
        database.execute("UPDATE events SET body = ? WHERE seq = ?", (body, seq))
        database.commit()
        database.close()
    assert (refused.exit_code, "is damaged" in refused.output) == (3, True)
