"""`assay run` with several agents and models, and `--out`."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.cli import main
from assay.cli.options import resolve_several
from assay.rollout import RunConfig, plan_grid, run_inputs, to_toml
from assay.store import list_runs

pytestmark = pytest.mark.newest
AGENTS = Path(__file__).parents[1] / "rollout" / "agents.py"
TASKS = "family:grid,n=2"
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Calls the program in an empty folder; its exit code, what it printed, and what it said on stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["assay", *words])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return call


def test_several_agents_make_a_grid_of_runs(say: Say) -> None:
    code, out, err = say("run", TASKS, "--agent", "expert", "--agent", "null", "--run", "g")
    assert code == 0
    assert [line.split()[:5] for line in out.splitlines()[1:]] == [
        ["expert", "-", "2", "2", "2"],
        ["null", "-", "2", "2", "0"],
    ]
    assert list_runs(Path(".assay")) == ["g-0-expert", "g-1-null"]
    assert "4/4 done" in err


def test_grid_is_resumed_by_its_name(say: Say) -> None:
    say("run", TASKS, "--agent", "expert", "--agent", "null", "--run", "g")
    shutil.rmtree(".assay/runs/g-1-null")
    say("seal", "g-0-expert")
    code, out, err = say("resume", "g", "--json")
    assert "4 attempts, 2 of them done before" in err
    assert (code, json.loads(out)["runs"]) == (0, ["g-0-expert", "g-1-null"])
    assert say("resume", "g-2")[0] == 2


def test_a_grid_reads_and_lints_its_tasks_once(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    for function in (run_inputs.find_tasks, run_inputs.lint_warnings):

        def counted(given: Any, function: Any = function) -> Any:
            counts[function.__name__] += 1
            return function(given)

        monkeypatch.setattr(run_inputs, function.__name__, counted)
    assert say("run", TASKS, "--agent", "expert", "--agent", "null", "--run", "g")[0] == 0
    assert counts == {"find_tasks": 1, "lint_warnings": 1}
    shutil.rmtree(".assay/runs/g-1-null")
    assert say("resume", "g")[0] == 0
    assert counts == {"find_tasks": 2, "lint_warnings": 2}


@pytest.mark.parametrize("length", [100, 117, 118, 120])
def test_runs_of_a_grid_with_a_long_name_have_names_of_their_own(length: int) -> None:
    config = RunConfig(tasks=(TASKS,), run="g" * length)
    names = [str(cell.config.run) for cell in plan_grid(config, ["expert", "null"] * 6, [None])]
    assert len(set(names)) == 2
    assert all(len(name) <= 120 and f"-{number}" in name for number, name in enumerate(names))


def test_damaged_run_does_not_hide_a_grid(say: Say) -> None:
    damaged = Path(".assay/runs/a")
    damaged.mkdir(parents=True)
    (damaged / "run.sqlite").write_bytes(b"no database" * 500)
    say("run", TASKS, "--agent", "expert", "--agent", "null", "--run", "g")
    assert say("resume", "g")[0] == 0
    assert "no run is called 'h'" in say("resume", "h")[2]


def test_unusable_agent_of_a_grid_is_refused_before_anything_starts(say: Say) -> None:
    code, _, err = say("run", TASKS, "--agent", "expert", "--agent", "loop")
    assert (code, "asks a model" in err, list_runs(Path(".assay"))) == (2, True, [])


def test_list_in_a_file_is_a_grid_and_dry_run_reproduces_it(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('tasks = ["t"]\nagent = ["a", "b", "a"]\nmodel = "m"\n')
    config, several = resolve_several(RunConfig, {"config_file": str(file)}, ("agent", "model"))
    assert (config.agent, several) == ("a", {"agent": ("a", "b"), "model": ("m",)})
    file.write_text(to_toml(config, several))
    assert resolve_several(RunConfig, {"config_file": str(file)}, ("agent", "model")) == (config, several)


@pytest.mark.parametrize(
    ("name", "begins"), [("o.json", "{"), ("o.csv", "agent,model,"), ("o.md", "| agent |"), ("o.txt", "agent  ")]
)
def test_out_writes_the_form_that_its_name_says(say: Say, name: str, begins: str) -> None:
    say("run", TASKS, "--agent", "null", "--run", "r")
    code, out, err = say("stats", "r", "--out", name)
    assert (code, out, f"written to {name}" in err) == (0, "", True)
    assert Path(name).read_text().startswith(begins)


def test_out_of_a_failed_command_writes_nothing(say: Say) -> None:
    say("run", TASKS, "--agent", "null", "--run", "r")
    assert say("ls", "x", "--out", "o.txt")[0] == 2
    assert not Path("o.txt").exists()
    assert say("query", "select task from trajectories order by 1", "--out", "q.csv")[0] == 0
    assert Path("q.csv").read_text().startswith("task\ngrid")
    assert "writes no csv table" in say("ls", "r", "--out", "o.csv")[2]
    assert "absent does not exist" in say("ls", "r", "--out", "absent/o.txt")[2]


def test_out_keeps_the_exit_code_of_findings(say: Say) -> None:
    say("run", TASKS, "--agent", "null", "--run", "r")
    manifest = Path(".assay/runs/r/manifest.json")
    manifest.write_text(manifest.read_text().replace("null", "nule"))
    assert say("verify", "r", "--out", "o.txt")[0] == 1
    assert "manifest" in Path("o.txt").read_text()


def test_commands_that_read_several_runs_take_the_grid(say: Say) -> None:
    say("run", TASKS, "--agent", "expert", "--agent", "null", "--run", "g")
    assert say("stats", "g") == say("stats", "g-0-expert", "g-1-null")
    assert [line.split()[0] for line in say("ls", "g")[1].splitlines()[1:]] == ["g-0-expert", "g-1-null"]
    assert say("compare", "g") == say("compare", "g-0-expert", "g-1-null")
    code, _, err = say("view", "g", "--export", "pages")
    assert (code, "views of runs g-0-expert, g-1-null" in err) == (0, True)
    assert assay.open()["g"].runs == ("g-0-expert", "g-1-null")


def test_commands_that_read_one_run_name_those_of_the_grid(say: Say) -> None:
    say("run", TASKS, "--agent", "expert", "--agent", "null", "--run", "g")
    said = "assay: 'g' is the grid of the runs g-0-expert, g-1-null: name one of them\n"
    assert say("show", "grid-0-0", "--run", "g") == (2, "", said)
    assert say("seal", "g") == (2, "", said)
    code, _, err = say("ls", "g", "--all")
    assert (code, "need one run" in err) == (2, True)
