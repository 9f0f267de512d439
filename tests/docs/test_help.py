"""The command line is quick to answer, and every way to hold it wrong is answered with one paragraph."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from assay.cli import main
from assay.cli.app import VERBS, Verb, build_app
from tests.sampling import draw_sample

HEAVY = {"httptools", "duckdb", "networkx", "numpy", "pandas", "pyarrow", "rich", "scipy"}
pytestmark = pytest.mark.newest

WRONG = {
    "unknown command": (["runn"], "No such command"),
    "unknown option": (["run", "tasks", "--attemps", "3"], "--attempts"),
    "no tasks": (["run"], "tasks is missing"),
    "no such folder": (["run", "nowhere"], "'nowhere' does not exist"),
    "not a task": (["run", "."], "task.toml"),
    "no attempts": (["run", "t", "--attempts", "0"], "at least 1"),
    "process unasked": (["run", "t", "--backend", "process"], "--allow-unsafe"),
    "option without value": (["run", "t", "--agent-option", "x"], "key=value"),
    "no configuration": (["run", "--config", "no.toml"], "cannot read the configuration no.toml"),
    "bad TOML": (["run", "--config", "bad.toml"], "is not TOML"),
    "unknown field": (["run", "--config", "unknown.toml"], "unknown field 'agnet'"),
    "empty store": (["ls"], "make one with `assay run`"),
    "empty store, stats": (["stats"], "make one with `assay run`"),
    "empty store, show": (["show", "x@0"], "make one with `assay run`"),
    "empty store, SQL": (["query", "select 1 from steps"], "make one with `assay run`"),
    "unknown run": (["resume", "nope"], "make one with `assay run`"),
    "no source": (["synth", "repository"], "source is missing"),
    "no out": (["synth", "repository", "networkx"], "out is missing"),
    "no such language": (["synth", "programs", "networkx", "--out", "x", "--language", "cobol"], "name one of c, node"),
    "no source of questions": (["synth", "questions", "--out", "x"], "source is missing"),
    "no such source": (["synth", "repository", "nosuch", "--out", "x"], "'nosuch'"),
    "lint nowhere": (["lint", "nowhere"], "'nowhere' does not exist"),
    "nothing to install": (["agents", "install"], "name the agents to install"),
    "no such harness": (["agents", "install", "claude"], "claude-code"),
    "check of no Python": (["init", "check", "x.txt"], "must end in .py"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("user")
    (made / "bad.toml").write_text("x = [")
    (made / "unknown.toml").write_text('agnet = "oracle"')
    return made


@pytest.mark.parametrize(("arguments", "says"), WRONG.values(), ids=WRONG)
def test_wrong_use_is_answered_in_a_paragraph(
    arguments: list[str],
    says: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["assay", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert says in capsys.readouterr().err


def stays_within(cpu_s: float, code: str) -> bool:
    """Whether one of three tries takes no more: a busy machine is no failure."""
    for _ in range(3):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = os.times()
        if after.children_user + after.children_system - before.children_user - before.children_system <= cpu_s:
            return True
    return False


def test_help_takes_at_most_four_tenths_of_a_second() -> None:
    assert stays_within(0.4, "import sys; sys.argv = ['assay', '--help']; from assay.cli import main; main()")


def test_import_takes_at_most_two_tenths_of_a_second() -> None:
    assert stays_within(0.2, "import assay")


def test_help_loads_nothing_heavy() -> None:
    code = "from assay.cli.app import build_app; build_app(); import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not HEAVY & set(loaded)
    assert len(loaded) <= 600


def list_commands() -> list[tuple[str, ...]]:
    """Returns the words of every command, of the nested ones too."""
    found: list[tuple[str, ...]] = []
    root = typer.main.get_command(build_app())
    for verb in VERBS:
        nested = getattr(root.commands[verb.name], "commands", {})  # type: ignore[attr-defined]
        found += [(verb.name,), *((verb.name, name) for name in nested)]
    return found


PRINT_HELP = """import atexit, sys
atexit.register(lambda: print("\\n", *sys.modules, file=sys.stderr))
from assay.cli import main
main()"""
MOST_MODULES = 300


@pytest.mark.parametrize("words", draw_sample(list_commands(), 6), ids=" ".join)
def test_help_of_a_command_loads_only_what_it_prints(words: tuple[str, ...]) -> None:
    shown = subprocess.run([sys.executable, "-c", PRINT_HELP, *words, "--help"], capture_output=True, text=True)
    assert "Usage: " in shown.stdout
    loaded = shown.stderr.split()
    assert not {"assay.analysis.judge", "pydantic", "sqlite3", *HEAVY} & set(loaded)
    assert len(loaded) <= MOST_MODULES


@pytest.mark.parametrize("verb", VERBS, ids=[verb.name for verb in VERBS])
def test_the_line_on_a_verb_fits_and_the_verb_is_there(verb: Verb) -> None:
    assert len(verb.help) <= 66
    assert verb.help.endswith(".")
    module, _, attribute = verb.target.partition(":")
    assert hasattr(importlib.import_module(f"assay.cli.{module}"), attribute)
