"""Copies for the verifier: by content, readable, without links that lead out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.errors import TaskError
from assay.verify import _staging
from assay.verify._staging import PREFIX, _remove_abandoned, stage

pytestmark = pytest.mark.quick


def make(folder: Path, text: str = "x") -> Path:
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "a.py").write_text(text)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o700)
    return folder


def test_same_content_has_the_same_digest(tmp_path: Path) -> None:
    one, two = stage(make(tmp_path / "a")), stage(make(tmp_path / "b"))
    assert one.digest == two.digest
    assert stage(tmp_path / "a") == one


def test_a_change_is_seen(tmp_path: Path) -> None:
    before = stage(make(tmp_path / "a"))
    (tmp_path / "a" / "inner" / "a.py").write_text("yy")
    assert stage(tmp_path / "a").digest != before.digest
    assert (before.path / "inner" / "a.py").read_text() == "x"


def _edit(path: Path, text: str) -> None:
    """Writes a text of the same length into the same file, with the time of the old one."""
    status = path.stat()
    with path.open("r+", encoding="utf-8") as file:
        file.write(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    changed = path.stat()
    assert (changed.st_mtime_ns, changed.st_size, changed.st_ino) == (
        status.st_mtime_ns,
        status.st_size,
        status.st_ino,
    )


def test_a_change_in_place_that_hides_its_time_is_seen(tmp_path: Path) -> None:
    folder = make(tmp_path / "a")
    for text in "yzuvw":
        before = stage(folder)
        _edit(folder / "inner" / "a.py", text)
        after = stage(folder)
        assert after.digest != before.digest
        assert (after.path / "inner" / "a.py").read_text() == text


def test_a_change_with_all_the_times_of_the_copied_content_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "a")
    times = dict(_staging._entries(folder))
    monkeypatch.setattr(_staging, "_entries", lambda _: iter(times.items()))  # as if one tick of the clock
    before = stage(folder)
    (folder / "inner" / "a.py").write_text("y")
    assert stage(folder).digest != before.digest
    assert (stage(folder).path / "inner" / "a.py").read_text() == "y"


def test_private_folders_become_readable(tmp_path: Path) -> None:
    folder = make(tmp_path / "a")
    folder.chmod(0o700)
    copy = stage(folder).path
    assert [oct(p.stat().st_mode & 0o777) for p in (copy, copy / "run.sh", copy / "inner" / "a.py")] == [
        "0o755",
        "0o755",
        "0o644",
    ]


def test_a_single_file_is_staged(tmp_path: Path) -> None:
    assert stage(make(tmp_path / "a") / "run.sh").path.read_text() == "#!/bin/sh\n"


def test_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    (make(tmp_path / "a") / "link").symlink_to("/etc/passwd")
    with pytest.raises(TaskError, match="leads outside"):
        stage(tmp_path / "a")


def test_what_is_not_there_is_a_task_error(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="cannot be brought"):
        stage(tmp_path / "nothing")


def test_folders_of_killed_processes_are_removed(tmp_path: Path) -> None:
    dead, alive = tmp_path / f"{PREFIX}999999999-x", tmp_path / f"{PREFIX}{os.getpid()}-x"
    dead.mkdir()
    alive.mkdir()
    _remove_abandoned(tmp_path)
    assert [path.exists() for path in (dead, alive)] == [False, True]
