"""The commands about teams, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from experiments.safety_adviser import HERE, team
from experiments.searchers import team as searchers_of

TEAM = Path(__file__).parents[2] / "docs_src" / "team.toml"
RUN = ("run", "family:split-constraints,n=2,variables=4,values=3", "--agent", "team", "--run", "pair")


def assay(store: Path, *words: str) -> Any:
    return CliRunner().invoke(build_app(), [*words, "--store", str(store)])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    assert assay(tmp_path, *RUN, "--agent-option", f"file={TEAM}").exit_code == 0
    return tmp_path


def test_the_table_of_actors_the_steps_and_the_marginals_name_them(store: Path) -> None:
    table = assay(store, "stats", "pair", "--table", "actors").stdout
    assert [line.split()[1] for line in table.splitlines()[1:]] == ["reader", "solver"]
    attempt = next(word for word in assay(store, "ls", "pair").stdout.split() if "@0" in word)
    assert "[0] reader:\n  > team_send" in assay(store, "show", attempt, "--run", "pair").stdout
    measured = assay(store, "marginals", attempt, "--run", "pair", "--forks", "2", "--actors", "reader").stdout
    assert "team_send" in measured
    assert "4 continuations" in measured


def test_the_table_of_evidence_says_who_told_what_the_others_need(store: Path) -> None:
    (found,) = json.loads(assay(store, "stats", "pair", "--table", "evidence", "--json").stdout)["tables"]["evidence"]
    reader, solver = found["actors"]
    assert (reader["actor"], solver["first"], solver["again"]) == ("reader", 0.0, 0.0)  # it keeps its part to itself
    assert found["coverage"] == found["shared"] == pytest.approx(reader["first"])
    assert 0.4 < found["coverage"] < 0.7
    assert found["duplication"] == 0
    lines = assay(store, "stats", "pair", "--table", "evidence").stdout.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["reader", "solver"]


def test_tasks_that_name_code_are_counted_and_left_out_of_the_table_of_evidence(tmp_path: Path) -> None:
    world = Path(__file__).parents[2] / "experiments" / "_letters_world.py"
    letters = msgspec.toml.encode({"agent_options": searchers_of(2, "led")})
    (tmp_path / "run.toml").write_bytes(letters)
    tasks = f"family:{world}:LettersTasks,n=2,reads=60"
    made = assay(tmp_path, "run", tasks, "--config", str(tmp_path / "run.toml"), "--agent", "team", "--run", "led")
    assert made.exit_code == 0, made.output
    words = ("stats", "led", "--table", "evidence", "--json")
    refused = assay(tmp_path, *words)
    assert json.loads(refused.stdout)["tables"]["evidence"] == []
    assert "2 attempts are not in the table of evidence" in refused.stderr
    (found,) = json.loads(assay(tmp_path, *words, "--allow-task-code").stdout)["tables"]["evidence"]
    assert (found["coverage"], found["duplication"], found["needed"]) == (1, 0, 6)


def test_a_wrong_team_file_is_one_paragraph(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('[[roles]]\nname = "a"\nrights = "all"\n')
    found = assay(tmp_path, *RUN, "--agent-option", f"file={tmp_path / 'bad.toml'}")
    assert found.exit_code == 2
    assert "rights" in found.output


def test_a_query_names_the_actor_of_each_step(store: Path) -> None:
    wanted = "SELECT DISTINCT actor_name FROM steps ORDER BY 1"
    live = assay(store, "query", wanted).stdout
    assert live.split()[-2:] == ["reader", "solver"]
    assert assay(store, "seal", "pair").exit_code == 0
    assert assay(store, "query", wanted).stdout == live


def test_a_safety_adviser_is_measured_on_both_axes(tmp_path: Path) -> None:
    for name, absent in (("alone", True), ("advised", False)):
        table = msgspec.toml.encode({"agent_options": team("t", "always", absent=absent)})
        (tmp_path / "run.toml").write_bytes(table)
        tasks = f"family:{HERE}:DeskTasks,n=40,seed=3,twins=true"
        made = assay(tmp_path, "run", tasks, "--config", str(tmp_path / "run.toml"), "--agent", "team", "--run", name)
        assert made.exit_code == 0, made.output
    found = json.loads(assay(tmp_path, "stats", "alone", "advised", "--table", "refusals", "--json").stdout)
    alone, advised = found["tables"]["refusals"]
    assert (alone["to_decline"], alone["to_do"], alone["agent"]) == (20, 20, "team:t-adviser")
    assert advised["unsafe"] < alone["unsafe"]
    assert advised["refused"] < alone["refused"]
    assert advised["improvement"] == pytest.approx(advised["passed"] - alone["passed"])
    assert assay(tmp_path, "stats", "alone", "--table", "refusals").stdout.splitlines()[1].startswith("team:t-adviser")
