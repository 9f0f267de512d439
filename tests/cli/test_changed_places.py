"""A place whose objects were changed or removed: a resumed run notices it, or decides again what is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Say
from tests.optional import require_packages
from tests.processes import Start, assay_processes, wait_for

require_packages("obstore")
TASKS = "family:grid,n=4,size=3"
RUN = ("run", TASKS, "--agent", "expert", "--agent-option", "noise=0.5", "--allocate", "halving", "--budget", "16")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store and the place of a run that is complete."""
    folder = tmp_path_factory.mktemp("done")
    with assay_processes(folder) as begin:
        command = begin("command", (*RUN, "--run", "r", "--nodes", "1", "--store", str(folder / "store")))
        assert command.wait(100) == 0, (folder / "command.log").read_text()
    return folder


@pytest.fixture
def place(done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run's objects, in a folder of their own that has the same name for the store."""
    shutil.copytree(done / "store", tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store" / "objects" / "runs" / "r"


def resume(say: Say, place: Path) -> tuple[int, str, str]:
    url = place.parent.parent.as_uri()
    return say("resume", "r", "--store", "store", "--place", url, "--nodes", "1")


def change(path: Path, **fields: Any) -> None:
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps(record | fields))


@pytest.mark.long
def test_a_changed_description_of_a_run_is_refused(say: Say, place: Path) -> None:
    manifest = json.loads((place / "run.json").read_bytes())["manifest"]
    manifest["config"]["limits"] = {"turns": 1}
    change(place / "run.json", manifest=manifest)
    code, _, err = resume(say, place)
    assert (code, "runs/r/run.json was changed since the run began" in err) == (3, True)


@pytest.mark.long
def test_a_round_that_was_decided_on_other_scores_is_noticed(say: Say, place: Path) -> None:
    path = place / "rounds" / "00000001.json"
    scores = [None if score is None else 1 - score for score in json.loads(path.read_bytes())["scores"]]
    change(path, scores=scores)
    code, _, err = resume(say, place)
    assert (code, "was decided on the score" in err) == (3, True)


@pytest.mark.long
def test_a_round_that_is_missing_is_decided_again(say: Say, place: Path) -> None:
    rounds = sorted((place / "rounds").iterdir())
    assert len(rounds) >= 2
    before = json.loads(rounds[-1].read_bytes())
    rounds[-1].unlink()
    code, _, err = resume(say, place)
    assert code == 0, err
    again = json.loads(rounds[-1].read_bytes())
    assert (again["grants"], again["scores"]) == (before["grants"], before["scores"])
    assert not (place / "cut").exists()  # no attempt was made again


@pytest.mark.long
def test_a_final_that_was_removed_after_the_end_is_named_as_such(say: Say, place: Path) -> None:
    next((place / "finals").glob("*/*")).unlink()
    code, _, err = resume(say, place)
    assert (code, "15 of 16 finals of r are there: others were removed" in err) == (3, True)


@pytest.mark.long
def test_a_node_waits_for_a_folder_that_the_command_makes(say: Say, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-some-length\n")
    (tmp_path / "token").chmod(0o600)
    shared = ("--place", (tmp_path / "later").as_uri(), "--token-file", str(tmp_path / "token"))
    with assay_processes(tmp_path) as begin:
        start: Start = begin
        node = start("node", ("node", "r", *shared, "--slots", "2", "--store", str(tmp_path / "n")))
        wait_for(lambda: "looking for r" in (tmp_path / "node.log").read_text())
        command = ("run", TASKS, "--agent", "expert", "--run", "r", "--nodes", "external", *shared)
        assert start("command", (*command, "--store", str(tmp_path / "s"))).wait(100) == 0
        assert node.wait(60) == 0


def test_a_folder_that_is_never_made_is_an_error(say: Say, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-some-length\n")
    (tmp_path / "token").chmod(0o600)
    shared = ("--place", (tmp_path / "never").as_uri(), "--token-file", str(tmp_path / "token"))
    code, _, err = say("node", "r", *shared, "--wait-s", "0.1", "--store", str(tmp_path / "n"))
    assert (code, "does not exist" in err) == (2, True)


@pytest.mark.long
def test_work_is_repeated_with_another_concurrency(say: Say, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    assert say("run", TASKS, "--agent", "expert", "--run", "r", "--nodes", "1")[0] == 0
    shutil.copytree(tmp_path / "store", tmp_path / "again" / "store")
    for folder, concurrency in (("store", "1"), ("again/store", "2")):
        words = ("--store", str(tmp_path / folder), "--place", (tmp_path / "objects").as_uri())
        code, _, err = say("verify", "r", "--again", "1", "--nodes", "1", "--concurrency", concurrency, *words)
        assert code == 0, err
