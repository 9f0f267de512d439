"""Where an exception came from, in a process whose folders are unusual."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.crash import describe_crash

pytestmark = pytest.mark.quick


def raise_error(*_: object) -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_crash_is_described_without_current_folder_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(Path, "home", raise_error)
    with pytest.raises(ZeroDivisionError) as raised:
        divmod(1, 0)
    crash = describe_crash(raised.value)
    assert crash.place is not None
    assert "ZeroDivisionError" in str(crash.traceback)
