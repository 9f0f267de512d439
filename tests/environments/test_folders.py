"""Folders of sandboxes are removed whole, and nothing outside of them is touched."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from assay.environments.workspace._folders import remove_folder

pytestmark = pytest.mark.quick


def test_a_folder_that_cannot_be_removed_leaves_the_mode_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent is often `/tmp`, which all users of the machine need."""
    shared = tmp_path / "shared"
    folder = shared / "folder"
    folder.mkdir(parents=True)
    shared.chmod(0o1777)
    real = os.rmdir

    def refuse(path: Any, **given: Any) -> None:
        if Path(path) == folder:
            raise OSError(39, "Directory not empty", str(path))
        real(path, **given)

    monkeypatch.setattr(os, "rmdir", refuse)
    remove_folder(folder)
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777
    assert folder.exists()


def test_folders_without_permissions_are_removed(tmp_path: Path) -> None:
    inner = tmp_path / "folder" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("")
    for folder in (inner, inner.parent, tmp_path / "folder"):
        folder.chmod(0)
    remove_folder(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []
