"""Archives of layers: what comes back is what was packed, and nothing reaches beyond the folder."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from assay.environments.workspace import _layers, layer_archive
from assay.environments.workspace.layer_archive import pack_layer, unpack_layer


def _member(name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, 0o644
    for key, value in more.items():
        setattr(member, key, value)
    return member


def _archive(path: Path, *members: tarfile.TarInfo, data: bytes = b"") -> Path:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:", format=tarfile.PAX_FORMAT) as file:
        for member in members:
            member.size = member.size or (len(data) if member.isreg() else 0)
            file.addfile(member, io.BytesIO(data.ljust(member.size, b"x")))
    return _compress(path, raw.getvalue())


def _compress(path: Path, raw: bytes) -> Path:
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as stream:
        stream.write(raw)
    return path


def _layer(folder: Path) -> Path:
    (folder / "etc" / "deep").mkdir(parents=True)
    (folder / "etc" / "deep").chmod(0o1777)
    (folder / "etc" / "a b").write_bytes(b"1" * 100_000)
    (folder / "etc" / "run").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "etc" / "run").chmod(0o751)
    (folder / "etc" / ("n" * 200)).write_bytes(b"")
    (folder / "link").symlink_to("/etc/../../away")
    os.mknod(folder / "etc" / "removed", stat.S_IFCHR, 0)
    (folder / "etc").chmod(0o555)
    return folder


def test_a_layer_comes_back_with_its_modes_links_and_removed_files(tmp_path: Path) -> None:
    layer, target = _layer(tmp_path / "layer"), tmp_path / "target"
    target.mkdir()
    pack_layer(layer, tmp_path / "one")
    pack_layer(layer, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    unpack_layer(tmp_path / "one", target)
    assert _layers.content_digest(target) == _layers.content_digest(layer)


def test_a_folder_that_hides_what_lies_below_is_not_packed(tmp_path: Path) -> None:
    (tmp_path / "layer" / "opaque").mkdir(parents=True)
    os.setxattr(tmp_path / "layer" / "opaque", "user.overlay.opaque", b"y")
    with pytest.raises(ValueError, match="hides what lies below"):
        pack_layer(tmp_path / "layer", tmp_path / "archive")


@pytest.mark.parametrize(
    "members",
    [
        [_member("../up")],
        [_member("/etc/passwd")],
        [_member("d/../../up")],
        [_member("a//b")],
        [_member("absent/file")],
        [_member("one"), _member("one")],
        [_member("link", tarfile.SYMTYPE, linkname="/"), _member("link/etc")],
        [_member("link", tarfile.SYMTYPE, linkname=".."), _member("link")],
        [_member("hard", tarfile.LNKTYPE, linkname="/etc/passwd")],
        [_member("device", tarfile.CHRTYPE, devmajor=1, devminor=3)],
        [_member("block", tarfile.BLKTYPE)],
        [_member("pipe", tarfile.FIFOTYPE)],
        [_member("su", mode=0o4755)],
        [_member("x" * 300, size=17 << 30)],
    ],
    ids=lambda members: members[-1].name[:20],
)
def test_a_hostile_member_is_refused(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    target = tmp_path / "target"
    target.mkdir()
    raw = b"".join(member.tobuf(tarfile.PAX_FORMAT) for member in members)
    _compress(tmp_path / "archive", raw + bytes(1024))
    with pytest.raises(ValueError, match=r"member|more than"):
        unpack_layer(tmp_path / "archive", target)
    assert {path.name for path in tmp_path.iterdir()} == {"archive", "target"}


def test_a_header_that_says_gigabytes_takes_no_memory(tmp_path: Path) -> None:
    header = _member("pax", tarfile.XHDTYPE, size=4 << 30)
    _compress(tmp_path / "archive", header.tobuf(tarfile.USTAR_FORMAT) + bytes(4 << 20))
    (tmp_path / "target").mkdir()
    with pytest.raises(ValueError, match=r"a header of 4,29\d,\d+"):
        unpack_layer(tmp_path / "archive", tmp_path / "target")


def test_a_layer_with_more_than_it_may_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_archive._layers, "MAX_FILES", 3)
    monkeypatch.setattr(layer_archive._layers, "MAX_BYTES", 1 << 20)
    many = _archive(tmp_path / "many", *[_member(str(number)) for number in range(4)])
    large = _archive(tmp_path / "large", _member("large", size=(1 << 20) + 1))
    for number, archive in enumerate((many, large)):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(ValueError, match="more than 3 files"):
            unpack_layer(archive, tmp_path / str(number))


@pytest.mark.parametrize("cut", [0, 10, 600, -200])
def test_a_damaged_archive_is_an_error(tmp_path: Path, cut: int) -> None:
    good = _archive(tmp_path / "good", _member("a"), data=os.urandom(5000)).read_bytes()
    (tmp_path / "cut").write_bytes(good[:cut])
    (tmp_path / "noise").write_bytes(b"noise" * 1000)
    (tmp_path / "target").mkdir()
    for name in ("cut", "noise"):
        with pytest.raises(ValueError, match=r"cannot be (unpacked|decompressed)|cut off"):
            unpack_layer(tmp_path / name, tmp_path / "target")
