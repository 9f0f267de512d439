"""Tasks from real code, end to end in the sandbox."""

from __future__ import annotations

import asyncio
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.environments.interface import Backend
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.errors import UserError
from assay.records import Verdict
from assay.synthesis import SynthesisConfig, SynthesisReport, _own_check, synthesise
from assay.synthesis.repository import JUDGING
from assay.tasks import lint_task, load_task
from assay.tasks.assay_config import declared_licence
from assay.verify.separation_plan import PLAN_PATH, SeparationPlan, encode_plan, load_plan
from tests.synthesis.conftest import write_sdist

DEFAULTS = {"count": 2, "candidates": 4, "separation": "off", "concurrency": 1, "repetitions": 1}
SETS = {**DEFAULTS, "count": 1, "candidates": 2, "repetitions": 2}
TWO = """from shapes import area, perimeter


def test_area_plain():
    assert area(2, 3) == 6


def test_area_square():
    assert area(2, 2) == 4


def test_perimeter_plain():
    assert perimeter(2, 3) == 10


def test_perimeter_square():
    assert perimeter(2, 2) == 8
"""


SQUARE = "from shapes import perimeter\n\n\ndef test_square():\n    assert perimeter(2, 2) == 8  # all its sides\n"
OBLONG = SQUARE.replace("square", "oblong").replace("(2, 2) == 8", "(2, 5) == 14")


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


async def make(source: Path, out: Path, backend: Backend, cache: Path, **more: object) -> SynthesisReport:
    config = SynthesisConfig(source=str(source), out=str(out), **{**DEFAULTS, **more})
    return await synthesise(config, backend=backend, cache=cache)


class TaskSets(NamedTuple):
    """Two sets of one configuration, one of them by a run that was stopped and went on."""

    straight: Path
    stopped: Path
    report: SynthesisReport
    before: bytes
    """The journal of the stopped run."""
    after: bytes


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> TaskSets:
    async def make_both() -> TaskSets:
        backend = NamespacesBackend()
        try:
            return await _make_sets(tmp_path_factory.mktemp("sets"), backend, cache)
        finally:
            await backend.close()

    return asyncio.run(make_both())


async def _make_sets(top: Path, backend: Backend, cache: Path) -> TaskSets:
    source = write_sdist(top)
    report = await make(source, top / "one", backend, tmp_path_cache(top, cache, "one"), **SETS)
    mine = tmp_path_cache(top, cache, "two")

    judged: list[str] = []

    def stop(what: str, done: int, all_: int) -> None:
        if what == JUDGING and judged:
            raise KeyboardInterrupt
        judged.extend([what] * (what == JUDGING))

    config = SynthesisConfig(source=str(source), out=str(top / "two"), **{**SETS, "concurrency": 3})
    with pytest.raises(KeyboardInterrupt):
        await synthesise(config, backend=backend, cache=mine, progress=stop)
    (journal,) = mine.rglob("journal.jsonl")
    before = journal.read_bytes()
    journal.write_bytes(before + b'\n{"digest": "cut')
    await synthesise(config, backend=backend, cache=mine)
    return TaskSets(top / "one", top / "two", report, before, journal.read_bytes())


def tmp_path_cache(tmp_path: Path, cache: Path, name: str) -> Path:
    """A cache with the same tool layer and no journal."""
    made = tmp_path / f"cache-{name}"
    made.mkdir()
    (made / "tools").symlink_to(cache / "tools")
    return made


@pytest.mark.long
def test_tasks_load_and_hide_what_decides(sets: TaskSets) -> None:
    assert len(sets.report.tasks) == SETS["count"]
    assert sum(row.total for row in sets.report.table) == sets.report.candidates
    assert len(sets.report.dropped) == sets.report.candidates - SETS["count"]
    for entry in sets.report.tasks:
        task = load_task(sets.straight / entry.id).task
        assert task.digest == entry.digest
        assert declared_licence(task.metadata) == "not declared"
        assert task.metadata["assay"]["provenance"]["licence"] == "not declared"
        assert entry.hidden
        assert entry.visible
        assert lint_task(sets.straight / entry.id) == ()
        _hides(sets.straight / entry.id, entry.hidden if entry.split == "tests" else ())


def _hides(folder: Path, hidden: tuple[str, ...]) -> None:
    shown = (folder / "environment" / "changed" / "tests" / "test_plane.py").read_text()
    deciding = (folder / "tests" / "files" / "tests" / "test_plane.py").read_text()
    text = (folder / "instruction.md").read_text()
    for test in hidden:
        name = test.rpartition("::")[2]
        assert f"def {name}(" in deciding
        assert f"def {name}(" not in shown
        assert name not in text.replace(f"{name}_", "")


@pytest.mark.long
def test_same_seed_gives_the_same_bytes_also_where_a_run_was_stopped(sets: TaskSets) -> None:
    assert files(sets.straight) == files(sets.stopped)


@pytest.mark.long
def test_stopped_run_goes_on_from_its_journal(sets: TaskSets) -> None:
    assert len(json.loads((sets.stopped / "manifest.json").read_text())["tasks"]) == SETS["count"]
    assert len(sets.before.splitlines()) == SETS["candidates"]
    assert sets.after.startswith(sets.before)


@pytest.mark.long
async def test_new_set_replaces_the_older_one(
    sets: TaskSets, sdist: Path, tmp_path: Path, backend: Backend, cache: Path
) -> None:
    shutil.copytree(sets.straight, tmp_path / "out")
    (tmp_path / "out" / "mine").mkdir()
    report = await make(sdist, tmp_path / "out", backend, cache, **{**SETS, "seed": 1})
    assert report.tasks[0].id not in {entry.id for entry in sets.report.tasks}
    left = {p.name for p in (tmp_path / "out").iterdir()}
    assert left == {report.tasks[0].id, "mine", "manifest.json"}


@pytest.mark.long
async def test_commits_become_tasks_that_tell_nothing_of_their_fix(
    repository: Path, tmp_path: Path, backend: Backend, cache: Path
) -> None:
    (repository / "shapes" / "later.py").write_text("LATER = 2\n")
    report = await make(repository, tmp_path / "out", backend, cache, kinds=("commit",))
    (entry,) = report.tasks
    folder = tmp_path / "out" / entry.id
    assert (entry.kind, entry.functions) == ("commit", ("shapes/plane.py::clamp",))
    assert "return low\n    return value" in (folder / "environment" / "changed" / "shapes" / "plane.py").read_text()
    assert not (folder / "environment" / "changed" / "shapes" / "later.py").exists()
    assert not [p for p in folder.rglob("*") if p.name == ".git"]
    assert {row.gate: row.total for row in report.table if row.total} == {"history": 1, "kept": 1}
    _tells_nothing_of_its_fix(folder)


def _tells_nothing_of_its_fix(folder: Path) -> None:
    shown = folder / "environment"
    with tarfile.open(shown / "source.tar.gz") as archive:
        held = set(archive.getnames())
    assert (shown / "changed" / "CHANGES").read_text() == "1.0\n"
    assert not {"FIXED", "CHANGES"} & held
    assert not (shown / "changed" / "FIXED").exists()
    assert "as it once was" in (folder / "instruction.md").read_text()


@pytest.mark.long
async def test_a_shown_test_in_a_file_of_its_own_is_no_leak(
    folder: Path, commit: Callable[[str, dict[str, str]], None], tmp_path: Path, backend: Backend, cache: Path
) -> None:
    text = (folder / "shapes" / "plane.py").read_text()
    commit("First", {"shapes/plane.py": text.replace("2 * (width", "3 * (width"), "tests/test_plane.py": "x = 1\n"})
    commit("Two files", {"shapes/plane.py": text, "tests/test_square.py": SQUARE, "tests/test_oblong.py": OBLONG})
    plain = {name: text.partition("  #")[0] + "\n" for name, text in (("square", SQUARE), ("oblong", OBLONG))}
    commit("Words", {f"tests/test_{name}.py": text for name, text in plain.items()})
    (entry,) = (await make(folder, tmp_path / "out", backend, cache, kinds=("commit",))).tasks
    made = tmp_path / "out" / entry.id
    shown = {name.partition("::")[0] for name in entry.visible}
    assert not shown & {name.partition("::")[0] for name in entry.hidden}
    assert lint_task(made) == ()
    for name in {name.partition("::")[0] for name in entry.hidden}:
        shutil.copy(made / "tests" / "files" / name, made / "environment" / "changed" / name)
    assert {finding.rule for finding in lint_task(made)} == {"leak"}


@pytest.mark.long
async def test_commit_of_two_fixes_shows_both(
    folder: Path, commit: Callable[[str, dict[str, str]], None], tmp_path: Path, backend: Backend, cache: Path
) -> None:
    text = (folder / "shapes" / "plane.py").read_text()
    wrong = text.replace("2 * (width", "3 * (width").replace("width * height", "width * height * 2")
    commit("First", {"shapes/plane.py": wrong, "tests/test_plane.py": "x = 1\n"})
    commit("Two", {"shapes/plane.py": text, "tests/test_plane.py": TWO})
    (entry,) = (await make(folder, tmp_path / "out", backend, cache, kinds=("commit",))).tasks
    assert {name.rpartition("_")[0] for name in entry.visible} == {
        "tests/test_plane.py::test_area",
        "tests/test_plane.py::test_perimeter",
    }


@pytest.mark.long
async def test_commit_of_another_period_is_counted(
    folder: Path, commit: Callable[[str, dict[str, str]], None], tmp_path: Path, backend: Backend, cache: Path
) -> None:
    old = {"shapes/plane.py": "import gone\n", "tests/test_plane.py": "from shapes import area\n"}
    text, tests = [(folder / name).read_text() for name in old]
    commit("First", old)
    commit("Second", {"shapes/plane.py": "import gone.by\n", "tests/test_plane.py": "from shapes import clamp\n"})
    commit("Third", {"shapes/plane.py": text, "tests/test_plane.py": tests, "shapes/new.py": "x = 1\n"})
    report = await make(folder, tmp_path / "out", backend, cache, kinds=("commit",))
    assert {row.gate: row.total for row in report.table if row.total} == {"history": 1, "period": 1}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    told = {(one["gate"], one["operators"][0].partition(" ")[0]): one["reason"] for one in manifest["dropped"]}
    assert told.keys() == {("history", "commit"), ("period", "commit")}
    assert told["history", "commit"] == "it adds or removes program files"
    assert "gone" in told["period", "commit"]


@pytest.mark.long
async def test_tests_that_need_a_package_are_told_so(folder: Path, backend: Backend, cache: Path) -> None:
    (folder / "tests" / "test_plane.py").write_text("import no_such_package\n")
    with pytest.raises(UserError, match=r"requirements \(name==version\)"):
        await make(folder, folder / "out", backend, cache)


@pytest.mark.parametrize("wrong", [{"count": 0}, {"kinds": ()}, {"run_cpu_s": -1.0}])
def test_configuration_refuses_what_cannot_work(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError):
        SynthesisConfig(source="x", out="y", **wrong)


@pytest.mark.long
async def test_tests_that_kill_the_runner_take_no_others_with_them(
    folder: Path, tmp_path: Path, backend: Backend, cache: Path
) -> None:
    (folder / "tests" / "test_killer.py").write_text("import os\n\ndef test_kill():\n    os.kill(-1, 9)\n")
    report = await make(folder, tmp_path / "out", backend, cache, count=1, candidates=2)
    assert "the test runner gave no reply" in report.left_out["tests/test_killer.py"]
    assert len(report.tasks) == 1


@pytest.mark.long
async def test_package_that_its_requirements_bring_is_masked(
    folder: Path, tmp_path: Path, backend: Backend, cache: Path
) -> None:
    (folder / "PKG-INFO").write_text("Name: six\nVersion: 1.16.0\n\n")
    report = await make(
        folder, tmp_path / "out", backend, cache, count=1, candidates=2, requirements=("python-dateutil==2.9.0.post0",)
    )
    parameters = load_task(tmp_path / "out" / report.tasks[0].id).task.environment.parameters
    assert parameters["masked_packages"] == ["six"]
    assert "/usr/lib/python3/dist-packages/shapes" in parameters["masks"]


@pytest.mark.long
async def test_a_kept_task_says_how_it_is_judged_apart(
    sdist: Path, tmp_path: Path, backend: Backend, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: list[Verdict] = []
    run_check = _own_check.run_check

    async def noted(*given: Any) -> Verdict:
        own.append(await run_check(*given))
        return own[-1]

    monkeypatch.setattr(_own_check, "run_check", noted)
    kinds = {"kinds": ("operator",), "count": 1, "candidates": 2, "separation_mutants": 2}
    fresh = tmp_path / "cache"  # what an earlier run of this test judged would not be judged again
    fresh.mkdir()
    (fresh / "tools").symlink_to(cache / "tools")
    report = await make(sdist, tmp_path / "out", backend, fresh, separation="required", **kinds)
    (entry,) = report.tasks
    assert {(verdict.status, verdict.separation) for verdict in own} == {("pass", "separate")}
    plan = load_plan(tmp_path / "out" / entry.id)
    assert plan is not None
    apart = {test.id for test in plan.of_method("splice")}
    carried = {test.id for test in plan.of_method("splice") if test.decides}
    loaded = load_task(tmp_path / "out" / entry.id).task
    expected = set(loaded.checks[0].parameters["expected"])
    assert {name.partition("[")[0] for name in expected} == {*entry.visible, *entry.hidden}
    assert expected <= apart
    assert expected & carried
    assert entry.separation["splice"] == len(carried)
    (tmp_path / "out" / entry.id / PLAN_PATH).write_bytes(encode_plan(SeparationPlan("shapes")))
    assert load_task(tmp_path / "out" / entry.id).task.digest != entry.digest
