"""All benchmarks at once: each is told the interpreters of its own peers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import PEERS, arguments_of, current_commit, interpreters, publish
from benchmarks._report import Report, Target

pytestmark = pytest.mark.quick


def test_every_peer_has_an_interpreter_of_its_own(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("aviary", "inspect", "harbor", "verifiers")}
    for path in paths.values():
        path.touch()
    named = interpreters([f"{name}={path}" for name, path in paths.items()])
    assert arguments_of("attempt", named, quick=True) == ["--quick", "--peer-python", f"harbor={paths['harbor']}"]
    assert arguments_of("store", named, quick=False) == ["--peer-python", f"inspect={paths['inspect']}"]
    assert arguments_of("overhead", named, quick=False).count("--peer-python") == 3
    assert arguments_of("sandbox", named, quick=False, before=tmp_path) == []
    assert arguments_of("large_run", named, quick=False, before=tmp_path) == ["--before", str(tmp_path)]


def test_an_interpreter_without_a_name_is_for_the_peers_that_are_not_named() -> None:
    named = interpreters([sys.executable, f"inspect={sys.executable}"])
    assert arguments_of("attempt", named, quick=False) == ["--peer-python", f"harbor={sys.executable}"]


@pytest.mark.parametrize(
    ("given", "said"), [("avairy=/usr/bin/env", "no peer is called 'avairy'"), ("harbor=/nowhere", "no Python at")]
)
def test_a_wrong_interpreter_is_refused_before_anything_is_measured(given: str, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        interpreters([given])


def test_all_results_of_a_run_replace_the_old_ones_and_the_tables(tmp_path: Path) -> None:
    measured, results, page = tmp_path / "measured", tmp_path / "results", tmp_path / "page.md"
    for folder in (measured, results):
        folder.mkdir()
    (results / "gone.json").write_text("{}")
    Report("credit", "how", [{"method": "grpo", "cpu_s": 2.5}], [Target("a promise", "s", 1.0, 2.5)], {}).finish(
        ("method",), measured
    )
    page.write_text(
        "".join(f"<!-- measured: {name} -->\nold\n<!-- end -->\n" for name in ("machine", "targets", "credit"))
    )
    publish("c0ffee" * 7, measured, results, [page])
    assert [path.name for path in results.iterdir()] == ["credit.json"]
    written = page.read_text()
    assert "One run on commit `c0ffeec0ffee`" in written
    assert "old" not in written
    assert next(line for line in written.splitlines() if line.startswith("| grpo")).count("2.5") == 1
    assert "| missed |" in written


def test_changes_that_are_not_committed_are_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.__main__._git", lambda *given: " M a.py" if given[0] == "status" else "head")
    with pytest.raises(SystemExit, match="1 files differ from it"):
        current_commit()


def test_every_script_is_known() -> None:
    folder = Path(__file__).parents[2] / "benchmarks"
    assert set(PEERS) == {path.stem for path in folder.glob("[a-z]*.py")}
