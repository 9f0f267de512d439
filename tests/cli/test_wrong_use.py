"""Wrong uses of every command that reads a store: each is answered with what to do, and none with a traceback."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay.agents.building import build_agent
from assay.cli import main
from assay.records import AttemptEnded, AttemptStarted
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import BlobStore, RunStore, seal
from assay.tasks import find_tasks
from tests.processes import ASSAY
from tests.rollout.counting import counting_task

AGENT = Path(__file__).parents[1] / "rollout" / "agents.py"
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with the finished run `r`, and `e`, which nothing has begun in."""
    config = RunConfig(tasks=("-",), agent=f"{AGENT}:Solver", run="r")
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    asyncio.run(start_run(config, settings, Tally(), tasks=[counting_task()]))
    RunStore.create(settings.store, "e", {"config": {"tasks": ["-"], "attempts": 3}, "tasks": {"a": "d"}}).close()
    os.utime(settings.store / "runs" / "e" / "manifest.json", (1, 1))
    return settings.store


@pytest.fixture
def say(store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Calls the program; its exit code, what it printed, and what it said on stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setenv("ASSAY_STORE", str(store))
        monkeypatch.setattr(sys, "argv", ["assay", *words])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        code = left.value.code
        return int(code) if isinstance(code, int) else 0, out, err

    return call


WRONG = {
    "ls of an unknown run": (["ls", "rr"], 2, "the nearest are r"),
    "ls --runs with a name": (["ls", "r", "--runs"], 2, "omit the run's name"),
    "show of nothing": (["show"], 2, "Missing argument"),
    "show of an unknown attempt": (["show", "zebra"], 2, "is not an attempt of run r: count@0"),
    "show in an unknown run": (["show", "count", "--run", "zz"], 2, "no run is called 'zz'"),
    "stats with k of 0": (["stats", "--k", "0"], 2, "--k"),
    "stats with a word for k": (["stats", "--k", "many"], 2, "--k"),
    "stats of an unknown run": (["stats", "r", "rrr"], 2, "no run is called 'rrr'"),
    "query of nothing": (["query", ""], 2, "this is nothing"),
    "query of two": (["query", "select 1; select 2"], 2, "this is SELECT, SELECT"),
    "query that writes": (["query", "copy steps to 'x'"], 2, "this is COPY"),
    "query of a file": (["query", "select * from read_text('/etc/hostname')"], 2, "and nothing else"),
    "query of no table": (["query", "select * from stepz"], 2, "tables are named literally"),
    "query of no function": (["query", "select nope(1)"], 2, 'Did you mean "now"?\n\nLINE 1: select nope(1)\n'),
    "query with a typing error": (["query", "selekt 1"], 2, "selekt"),
    "query without rows": (["query", "select 1", "--limit", "0"], 2, "--limit"),
    "query of an unknown run": (["query", "select 1 from steps", "--run", "zz"], 2, "no run is called 'zz'"),
    "seal of an unknown run": (["seal", "zz"], 2, "no run is called 'zz'"),
    "seal of an unfinished run": (["seal", "e"], 2, "assay resume e"),
    "verify with a key alone": (["verify", "--key", "x"], 2, "use --receipt FILE"),
    "verify against nothing": (["verify", "--receipt", "gone"], 2, "no such file"),
    "a receipt nowhere": (["receipt", "r"], 2, "out is missing"),
    "a receipt of an unknown attempt": (["receipt", "r", "--out", "x", "--attempt", "zz"], 2, "is not an attempt"),
    "a receipt with events of all": (["receipt", "r", "--out", "x", "--events"], 2, "name the attempt with --attempt"),
    "a receipt signed by nobody": (["receipt", "r", "--out", "x", "--sign", "gone.key"], 2, "no such file"),
    "keys of nothing": (["keys", "show", "gone.key"], 2, "no such file"),
    "verify of nothing": (["verify", "--no-chain", "--no-blobs"], 2, "nothing to verify"),
    "verify of an unknown run": (["verify", "zz"], 2, "no run is called 'zz'"),
    "synth of an odd kind": (
        ["synth", "repository", "x", "--out", "o", "--kind", "operators"],
        2,
        "use operator, feature, combination, commit",
    ),
    "gc of an argument": (["gc", "r"], 2, "unexpected extra argument"),
    "resume of nothing": (["resume"], 2, "Missing argument"),
    "resume of other means": (["resume", "e"], 2, "resume it there"),
    "run with a word for a number": (["run", "t", "--attempts", "many"], 2, "--attempts"),
    "run of an unknown agent": (["run", "family:x.py", "--agent", "orakel"], 2, "x.py"),
    "family without a name": (["run", "family:"], 2, "names no family"),
    "family with half an option": (["run", "family:x,n"], 2, "key=value"),
    "family with a word for a number": (["run", "family:x,n=many"], 2, "expected a whole number"),
    "family with a misspelt option": (
        ["run", "family:grid,n=2,sed=4", "--agent", "expert"],
        2,
        "did you mean seed? known: n,",
    ),
    "family with a misspelt option of its own": (["run", "family:services,sed=4"], 2, "did you mean seed?"),
    "family that is unknown": (["run", "family:zebra"], 2, "no task is called 'zebra'"),
    "lint of a family": (["lint", "family:x"], 2, "no task folders to lint"),
    "lint of a file": (["lint", __file__], 2, "is a file, not a task folder"),
    "setup of nowhere": (["setup", "nowhere"], 2, "'nowhere' does not exist"),
    "demo of nothing": (["demo", "--count", "0"], 2, "--count"),
    "init over a file": (["init", "agent", __file__], 2, "exists"),
    "init of an odd kind": (["init", "toy"], 2, "No such command"),
    "store that is a file": (["ls", "--store", __file__], 2, "is a file, not a store"),
    "store that is nowhere": (["ls", "--store", "/nowhere/at/all"], 2, "make one with `assay run`"),
}


COMMAND = ["run", "family:grid,n=1", "--agent", "command", "--model", "scripted:r.json", "--agent-option"]
OPTIONS = {
    'command=["python3"': "command starts with [ and is not a JSON list of words",
    "comand=ls": "has no option comand; did you mean command? known: command, name, env",
    'mounts={"a":': "mounts is not JSON",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_a_wrong_option_of_a_command_is_named(option: str, say: Say) -> None:
    more = ["--agent-option", "command=ls"] if option.startswith("mounts") else []
    code, out, err = say(*COMMAND, option, *more)
    assert (code, out, OPTIONS[option] in err) == (2, "", True), err


def test_a_test_of_the_shell_is_a_command() -> None:
    assert build_agent("command", {"command": "[ -f a ] && ls"}, model="m").name.startswith("command-")


def test_the_nearest_name_is_suggested(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tasks").mkdir()
    code, _, err = say("run", "task", "--agent", "null")
    assert (code, "'task' does not exist; did you mean 'tasks'?" in err) == (2, True)
    Path("two.py").write_text("import assay\n@assay.agent\ndef one(a): ...\n@assay.agent\ndef two(a): ...\n")
    code, _, err = say("run", "family:grid,n=1", "--agent", "two.py")
    assert (code, "(one, two): name one, for example two.py:one" in err) == (2, True)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_says_what_to_do(name: str, say: Say) -> None:
    words, code, said = WRONG[name]
    found, out, err = say(*words)
    assert (found, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


CONFIGURATIONS = {
    "limits = 3": "limits is not a table",
    "agent_options = 3": "agent_options is not a table",
    'tasks = "a"': "tasks: expected a list of strings, got the string 'a'; write tasks = [\"a\"] (",
    'attempts = "2"': "attempts: expected a whole number, got the string '2'; write attempts = 2 (",
    'store = "s"\ntasks = ["a"\nattempts = 2': "c.toml, line 2: is not TOML: unclosed array in 'tasks = [\"a\"'",
    "[limits]\nturnz = 3": "limits: object contains unknown field `turnz`; did you mean turns?",
    "seed = 2026-99-99": "c.toml, line 1: is not TOML",
    "x = " + "[" * 3000: "is nested more than 100 deep",
    "atempts = 3": "did you mean attempts?",
}


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_wrong_configuration_names_the_field(text: str, say: Say, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text)
    options = ["--agent-option", "a=1"] if "agent_options" in text else []
    tasks = [] if "tasks" in text else ["t"]
    code, _, err = say("run", *tasks, "--config", str(tmp_path / "c.toml"), *options)
    assert (code, CONFIGURATIONS[text] in err) == (2, True), err


def test_a_configuration_without_an_end_is_refused(say: Say) -> None:
    code, _, err = say("run", "t", "--config", "/dev/zero")
    assert (code, "larger than 1024 KiB" in err) == (2, True)


def test_an_empty_run_is_told_as_such(say: Say) -> None:
    assert "no attempt of run e has started" in say("ls", "e")[1]
    assert "no attempt has ended yet" in say("stats", "e")[1]
    assert say("verify", "e")[:2] == (0, "run e: every digest of chain and blobs holds\n")
    assert say("seal", "e", "--unfinished")[0] == 0
    assert say("verify", "e")[0] == 0
    assert say("query", "select * from steps", "--run", "e")[1] == "no rows\n"


def test_a_run_without_missing_attempts_is_resumed_by_doing_nothing(say: Say, store: Path, tmp_path: Path) -> None:
    for sealed in (False, True):
        (tmp_path / "sdk").mkdir()
        options = {"command": "ls", "mounts": {str(tmp_path / "sdk"): "/sdk"}}
        config = RunConfig(tasks=("family:grid,n=1",), agent="command", agent_options=options, model="scripted:m.json")
        name, task = f"c{sealed}", find_tasks(config.tasks)[0].task
        manifest = {"config": msgspec.to_builtins(config), "tasks": {task.id: task.digest}}
        with RunStore.create(store, name, manifest) as made:
            made.append(
                "a@0.0",
                [AttemptStarted(name, f"{task.id}@0", task.id, "d", "x", None, 0, 0), AttemptEnded(ended="x", at=1.0)],
            )
        (tmp_path / "sdk").rmdir()
        if sealed:
            seal(store, name)
        assert "nothing is left to run" in say("resume", name)[2]
    assert say("seal", "e", "--unfinished")[0] == 0
    code, _, err = say("resume", "e")
    assert (code, "sealed with 3 attempts that have not ended" in err) == (2, True)


def test_verify_does_what_its_flags_say(say: Say, store: Path) -> None:
    assert "--no-blobs: not looked at" in say("verify", "r", "--chain", "--no-blobs")[1]
    row = RunStore.open(store, "r").attempts()[0]
    assert row.final
    for blob in list(BlobStore(store / "blobs").addresses()):
        BlobStore(store / "blobs").remove(blob)
    assert say("verify", "r", "--no-blobs")[0] == 0


def test_a_result_that_is_cut_says_so(say: Say) -> None:
    _, out, err = say("query", "select * from range(5)", "--limit", "2")
    assert (len(out.splitlines()), "raise --limit" in err) == (3, True)
    assert '"cut": true' in say("query", "select * from range(5)", "--limit", "2", "--json")[1]


def test_a_run_named_twice_counts_once(say: Say) -> None:
    assert say("stats", "r", "r")[1] == say("stats", "r")[1]


def test_k_that_nobody_reached_is_told(say: Say) -> None:
    assert "no pass@8: no task has 8 judged attempts" in say("stats", "r", "--k", "8")[2]


def test_a_damaged_store_is_told(say: Say, store: Path) -> None:
    (store / "runs" / "r" / "run.sqlite").write_bytes(b"SQLite format 3\x00" + b"x" * 5000)
    for words in (["ls", "r"], ["stats", "r"], ["show", "count", "--run", "r"], ["seal", "r"], ["gc"]):
        code, out, err = say(*words)
        assert (code, out) == (3, "")
        assert "restore it from a copy" in err
    code, out, _ = say("verify", "r")
    assert (code, "restore it from a copy" in out) == (1, True)


def test_a_receipt_is_made_and_compared(say: Say, store: Path, tmp_path: Path) -> None:
    key, path = str(tmp_path / "lab.key"), str(tmp_path / "r.receipt")
    public = say("keys", "new", key)[1].split()[-1]
    assert say("receipt", "r", "--out", path, "--sign", key)[0] == 0
    code, out, err = say("verify", "r", "--receipt", path, "--key", f"{key}.pub")
    assert (code, "the receipt holds: it covers 1 chain," in out, f"signed by {public}" in err) == (0, True, True)
    assert say("verify", "r", "--receipt", path, "--key", "ed25519:" + "0" * 64)[0] == 1
    assert say("keys", "show", key)[1].split() == [public]


def test_show_goes_on_without_blobs_that_are_gone(say: Say, store: Path) -> None:
    seal(store, "r")
    assert "verdict" in say("show", "count", "--run", "r")[1]


def test_the_demo_without_its_library_names_the_extra(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, text = say("demo")
    assert (code, "pip install 'assay[demo]'" in text) == (2, True)


def test_a_reader_that_leaves_is_no_error(store: Path) -> None:
    environment = {**os.environ, "ASSAY_STORE": str(store)}
    words = ["query", "select repeat('x', 200) as x from range(20000)", "--limit", "20000"]
    argv = [*ASSAY, *words]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


def test_an_interruption_is_answered(store: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "ASSAY_STORE": str(store), "TMPDIR": str(tmp_path)}
    argv = [*ASSAY, "query", "select count(*) from range(1000000000) a, range(1000000000) b where a.range+b.range=-1"]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 60
        while not list(tmp_path.glob("assay-query-*")) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.decode().startswith("assay: interrupted. What was recorded is kept")
    assert b"Traceback" not in said
