"""A database is never written on a network file system or a mounted bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import StoreError
from assay.store import RunStore, database
from assay.store.database import network_mount

MOUNTS = r"""
22 1 0:20 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:30 / /home rw,relatime shared:1 - nfs4 server:/home rw
31 30 0:31 / /home/local rw,relatime - xfs /dev/sdb rw
32 22 0:32 / /mnt/my\040bucket rw - fuse.rclone remote: rw
33 22 0:33 / /mnt/s3 rw - fuse mountpoint-s3 rw
34 22 0:34 / /mnt/over rw - nfs server:/x rw
35 22 0:35 / /mnt/over rw - tmpfs tmpfs rw
36 22 0:36 / /mnt/other rw - fuse.sshfs host: rw
37 22 0:37 / /mnt/fuse rw - fuse.overlay overlay rw
broken line
"""
FOLDERS = {
    "/data/store": None,
    "/home/someone/.assay": "nfs4",
    "/homes": None,
    "/home/local/.assay": None,
    "/mnt/my bucket/store": "fuse.rclone",
    "/mnt/s3": "fuse.mountpoint-s3",
    "/mnt/over/x": None,
    "/mnt/other": "fuse.sshfs",
    "/mnt/fuse/x": None,
}


@pytest.mark.parametrize(("folder", "kind"), FOLDERS.items())
def test_the_nearest_mount_decides(folder: str, kind: str | None) -> None:
    assert network_mount(Path(folder), MOUNTS) == kind


def test_a_run_is_not_written_there_and_the_message_says_what_to_do(
    live_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"30 22 0:30 / {tmp_path.resolve()} rw - fuse.gcsfuse bucket rw\n")
    monkeypatch.setattr(database, "_MOUNTS", mounts)
    with pytest.raises(StoreError, match=r"fuse\.gcsfuse.*assay store copy"):
        RunStore.create(tmp_path / "store", "r", {})
    with RunStore.open(live_store, "r", write=True):  # elsewhere
        pass
