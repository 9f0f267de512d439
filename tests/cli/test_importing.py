"""`assay import`, `export` and `formats` as a person uses them: what is printed where, exit codes, interruptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.cli import main
from assay.formats.registry import list_formats
from assay.store import RunStore, audit

Say = Callable[..., tuple[int, str, str]]
ROW = json.dumps({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]})


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Calls the program; its exit code, what it printed, and what it said on stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
        monkeypatch.setattr(sys, "argv", ["assay", *words])
        with pytest.raises(SystemExit) as left:
            main()
        shown = capsys.readouterr()
        return int(left.value.code or 0), shown.out, shown.err

    return call


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text(ROW + "\n")
    return path


def test_an_import_says_in_one_line_what_it_did(say: Say, log: Path) -> None:
    code, out, err = say("import", str(log), "--run", "theirs")
    assert code == 0
    assert out == "run theirs: 1 trajectory read, 0 there already, 0 unreadable; 1 file (1 chat)\n"
    assert "assay audit theirs" in err
    assert say("import", str(log), "--run", "theirs")[1].startswith("run theirs: 0 trajectories read, 1 there already")


def test_what_could_not_be_read_is_on_stderr_and_in_the_exit_code(say: Say, log: Path) -> None:
    log.write_text(ROW + "\n{broken \x1b[2J\n")
    code, out, err = say("import", str(log), "--json")
    assert code == 1
    assert json.loads(out)["unreadable"][0]["place"] == "line 2"
    assert "unreadable: log.jsonl, line 2: invalid JSON" in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("import",), "paths is missing"),
        (("import", "nowhere"), "there is nothing at nowhere"),
        (("import", "{log}", "--format", "shat"), "did you mean chat"),
        (("import", "{log}", "--run", "../up"), "is not a valid run name"),
        (("export", "--to", "chat", "--out", "x"), "no run"),
        (("export", "--to", "chat"), "out is missing"),
    ],
)
def test_wrong_use_is_answered_with_what_to_do(words: tuple[str, ...], said: str, say: Say, log: Path) -> None:
    code, out, err = say(*(word.format(log=log) for word in words))
    assert (code in (2, 3), out) == (True, "")
    assert said in err
    assert "Traceback" not in err


def test_an_export_names_what_was_lost_and_where_it_is_listed(say: Say, log: Path, tmp_path: Path) -> None:
    call = {"id": "abc", "function": {"name": "bash", "arguments": "{}"}}
    log.write_text(json.dumps({"messages": [{"role": "assistant", "content": "x", "tool_calls": [call]}]}) + "\n")
    say("import", str(log), "--run", "theirs")
    code, out, err = say("export", "theirs", "--to", "sharegpt", "--out", str(tmp_path / "out.jsonl"))
    assert (code, out) == (0, f"1 trajectory of theirs as sharegpt: {tmp_path / 'out.jsonl'}\n")
    assert "lost: " in err
    assert "steps.tool_calls.id (1)" in err
    assert (tmp_path / "out.jsonl.losses.json").is_file()


def test_formats_are_listed_with_what_they_were_tested_on(say: Say) -> None:
    code, out, _ = say("formats")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [one.name for one in list_formats()]
    assert "atif " in out
    assert json.loads(say("formats", "--json")[1])[0].keys() == {"name", "title", "provenance", "writes"}


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_import_that_was_cut_goes_on(how: signal.Signals, say: Say, tmp_path: Path) -> None:
    log, store = tmp_path / "long.jsonl", tmp_path / "store"
    rows = 3000
    log.write_text(
        "".join(f'{{"messages": [{{"role": "user", "content": "{n} {"x" * 3000}"}}]}}\n' for n in range(rows))
    )
    words = [sys.executable, "-c", "from assay.cli import main; main()", "import", str(log), "--run", "r"]
    child = subprocess.Popen(words, env={**os.environ, "ASSAY_STORE": str(store)}, stderr=subprocess.DEVNULL)
    written = store / "runs" / "r" / "run.sqlite-wal"
    until = time.monotonic() + 60
    # Cut while it makes the run, it takes the empty run away again: wait for the first transaction.
    while child.poll() is None and time.monotonic() < until and not (written.is_file() and written.stat().st_size):
        time.sleep(0.01)
    child.send_signal(how)
    child.wait(60)
    assert not audit(store, "r")
    assert say("import", str(log), "--run", "r")[0] == 0
    with RunStore.open(store, "r") as opened:
        assert len(opened.attempts()) == rows
    assert not audit(store, "r")


def test_the_exit_code_says_whether_anything_was_imported(say: Say, log: Path, tmp_path: Path) -> None:
    assert say("import", str(log))[0] == 0
    log.write_text(ROW + "\n{broken\n")
    assert say("import", str(log))[0] == 1
    (tmp_path / "t.json").write_text('{"schema_version": "ATIF-v9.0", "agent": {}, "steps": []}')
    code, out, err = say("import", str(tmp_path / "t.json"))
    assert (code, "no run was made" in out, "ATIF-v9.0" in err) == (2, True, True)


def test_a_remark_is_no_failure(say: Say, log: Path) -> None:
    log.write_text(ROW + "\n" + ROW + "\n")
    code, out, err = say("import", str(log))
    assert (code, "2 trajectories read" in out) == (0, True)
    assert "note: log.jsonl, line 2: it has the same content as log.jsonl, line 1" in err


def test_a_file_of_no_known_format_is_answered_with_a_mapping_that_reads_it(say: Say, tmp_path: Path) -> None:
    talk = tmp_path / "talk.jsonl"
    talk.write_text('{"turns": [{"who": "user", "text": "hi"}, {"who": "bot", "text": "hello"}]}\n' * 2)
    code, _, err = say("import", str(talk))
    assert code == 2
    (tmp_path / "map.toml").write_text(err.split("\n\n")[1])
    code, out, _ = say("import", str(talk), "--map", str(tmp_path / "map.toml"))
    assert (code, "2 trajectories read" in out, "(2 mapped)" in out) == (0, True, True)
