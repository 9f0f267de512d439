"""Messages of commands that were given a wrong file, folder, name or option: each says where, why, and what to do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.viewer.made_runs import small_run

pytestmark = pytest.mark.quick
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def full_disk(small_disk: Path) -> Path:
    """A file system with room for folders, and none for data."""
    (small_disk / "ballast").write_bytes(b"x" * (2 << 20))
    return small_disk


@pytest.fixture
def read_only_disk(small_disk: Path) -> Path:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    return small_disk


def test_pages_on_a_full_disk_leave_nothing(say: Say, tmp_path: Path, full_disk: Path) -> None:
    small_run(tmp_path / "store")
    for _ in range(2):  # the repeat is not refused for what the first left
        code, out, err = say("view", "r", "--export", str(full_disk / "site"))
        assert (code, out) == (3, "")
        assert err.startswith(f"assay: {full_disk}/site: the disk is full: free some space, or choose another folder")
        assert not (full_disk / "site").exists()


def test_selection_on_a_full_disk_names_the_file(say: Say, full_disk: Path) -> None:
    say("run", "family:grid,n=2", "--agent", "expert", "--run", "mine")
    code, _, err = say("curate", "mine", "--where", "verdicts", "--out", str(full_disk / "rows"))
    assert (code, f"assay: {full_disk}/" in err, ": the disk is full: free some space" in err) == (3, True, True), err


def test_synthesis_on_a_full_disk_is_no_failure_of_the_store(say: Say, full_disk: Path) -> None:
    code, _, err = say("synth", "repository", "x", "--out", str(full_disk / "made"))
    assert (code, f"assay: {full_disk}/made" in err, "the disk is full: free some space" in err) == (3, True, True), err
    assert "Errno" not in err
    assert "store failed" not in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("formats", "--out", "{}/formats.txt"), 3),
        (("init", "agent", "{}/agent.py"), 2),
        (("init", "task", "{}/hello"), 2),
        (("synth", "repository", "x", "--out", "{}/made"), 3),
        (("run", "family:grid,n=1", "--agent", "expert", "--store", "{}/store"), 3),
        (("run", "family:grid,n=1", "--agent", "expert", "--junit", "{}/j.xml"), 2),
        (("keys", "new", "{}/lab.key"), 2),
    ],
)
def test_read_only_file_system_is_named_as_the_cause(
    words: tuple[str, ...], code: int, say: Say, read_only_disk: Path
) -> None:
    found, _, err = say(*(word.format(read_only_disk) for word in words))
    assert (found, "the file system is read-only: choose another folder" in err) == (code, True), err
    assert str(read_only_disk) in err
    assert "permission" not in err


def test_truncated_database_is_not_sent_from_verify_to_verify(say: Say, tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    database = tmp_path / "store" / "runs" / "r" / "run.sqlite"
    database.write_bytes(database.read_bytes()[:5000])
    code, out, _ = say("verify", "r")
    assert (code, "it is damaged: restore it from a copy" in out, "assay verify" in out) == (1, True, False), out
