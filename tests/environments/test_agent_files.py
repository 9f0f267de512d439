"""Files and names of an agent's that the observer of a judge's sandbox remembers are bounded."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from assay.environments.workspace.launcher import agent_files
from assay.environments.workspace.launcher.agent_files import AgentFiles
from assay.environments.workspace.launcher.interpreters import reads_program_from_input
from assay.environments.workspace.launcher.observe import Observer


def test_more_names_than_fit_make_an_observation_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(agent_files, "MOST_NAMES", 3)
    observer = Observer(str(tmp_path))
    observer.add_paths([str(tmp_path / name) for name in "abc"] * 2)
    assert observer.report()["complete"]
    observer.add_paths([str(tmp_path / "d")])
    assert (observer.report()["complete"], observer.report()["problem"]) == (
        False,
        "too many names of the agent's files",
    )


def test_names_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch):
    problems: list[str] = []
    monkeypatch.setattr(agent_files, "MOST_NAME_BYTES", 10)
    files = AgentFiles(problems.append)
    for name in (b"/12345678", b"/1", b"/12345678"):
        files.add_path(name)
    assert problems == ["too many names of the agent's files"]
    assert files.find_path(os.getpid(), None, b"/1") is None


def test_more_files_than_fit_make_an_observation_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    problems: list[str] = []
    monkeypatch.setattr(agent_files, "MOST_NAMES", 1)
    files = AgentFiles(problems.append)
    for name in "ab":
        (tmp_path / name).touch()
        files.add_file((tmp_path / name).stat())
    assert problems == ["too many files of the agent's"]


@pytest.mark.parametrize(
    ("text", "path"), [("b", "b"), ("c/../b", "b"), ("b/.", "b"), ("c/..//b", "b"), ("c", None), ("b/c/..", "b")]
)
def test_a_path_is_known_however_it_is_spelled(tmp_path: Path, text: str, path: str | None):
    files = AgentFiles(pytest.fail)
    files.add_path(os.fsencode(tmp_path / "b"))
    known = files.find_path(os.getpid(), None, os.fsencode(tmp_path) + b"/" + text.encode())
    assert known == (None if path is None else os.fsencode(tmp_path / path))


FROM_INPUT = ["bash", "sh -e", "bash -", "bash -s one", "bash -es one", "python3", "python3 -u -", "perl", "node -"]
FROM_ELSEWHERE = [
    "bash a.sh",
    "bash -c true",
    "bash -ec true",
    "python3 -c 1",
    "python3 -m json.tool",
    "perl -ne 1",
    "sort",
]


@pytest.mark.parametrize("line", [*FROM_INPUT, *FROM_ELSEWHERE])
def test_who_takes_its_program_from_its_input_is_told_by_its_command_line(line: str):
    words = line.encode().split()
    assert reads_program_from_input(b"/usr/bin/" + words[0], words) is (line in FROM_INPUT)


def test_a_file_opened_before_the_pipe_is_fed_is_known_once_it_is(tmp_path: Path) -> None:
    """The thread was let go on and does not hold the file yet: its descriptors do not show it, its call did."""
    problems: list[str] = []
    files = AgentFiles(problems.append)
    with (
        subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE) as taker,
        subprocess.Popen(["sleep", "60"], stdout=taker.stdin) as reader,
    ):
        try:
            path = os.fsencode(tmp_path / "copy")
            files.remember_written(taker.pid, None, path)
            assert files.find_path(os.getpid(), None, path) is None
            assert files.add_output_of(reader.pid) == [taker.pid]
            assert files.find_path(os.getpid(), None, path) == path
        finally:
            taker.kill()
            reader.kill()
    assert problems == []


def test_too_many_files_opened_behind_pipes_count_only_if_one_is_fed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_files, "MOST_NAMES", 2)
    problems: list[str] = []
    files = AgentFiles(problems.append)
    with (
        subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE) as taker,
        subprocess.Popen(["sleep", "60"], stdout=taker.stdin) as reader,
    ):
        try:
            for name in "abc":
                files.remember_written(taker.pid, None, os.fsencode(tmp_path / name))
            assert problems == []
            files.add_output_of(reader.pid)
        finally:
            taker.kill()
            reader.kill()
    assert problems[0] == "too many files are written by processes that read from pipes"
