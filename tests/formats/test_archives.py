"""Hostile archives are refused whole, by the name of archive and member, before anything of them is unpacked."""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import UserError
from assay.formats.shared.archives import ArchiveLimits, extract_archive, open_archive

ODD_NAMES = [
    "../up",
    "a/../../up",
    "/etc/passwd",
    "C:/windows",
    "a\\..\\b",
    "..",
    "bell\x07",
    "a" * 2000,
    "x/" * 80 + "y",
]


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as made:
        for name, data in members:
            made.writestr(name, data)
    return path


def tarred(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as made:
        for info, data in members:
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return path


def refused(path: Path, bounds: ArchiveLimits | None = None) -> str:
    with pytest.raises(UserError) as caught, open_archive(path, bounds):
        pass
    assert path.name in str(caught.value)
    return str(caught.value)


def test_plain_archives_are_read(tmp_path: Path) -> None:
    made = zipped(tmp_path / "a.zip", ("one.json", b"1"), ("folder/two.json", b"22"))
    other = tarred(
        tmp_path / "a.tar.gz", (tarfile.TarInfo("./one.json"), b"1"), (tarfile.TarInfo("folder/two.json"), b"22")
    )
    for path in (made, other):
        with open_archive(path) as members:
            assert {m.name: m.open().read() for m in members} == {"one.json": b"1", "folder/two.json": b"22"}


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_that_lead_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    assert "member" in refused(zipped(tmp_path / "a.zip", ("fine", b""), (name, b"x")))
    assert "member" in refused(
        tarred(tmp_path / "a.tar.gz", (tarfile.TarInfo("fine"), b""), (tarfile.TarInfo(name), b"x"))
    )


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFBLK, stat.S_IFIFO])
def test_links_and_devices_in_zip_archives_are_refused(mode: int, tmp_path: Path) -> None:
    info = zipfile.ZipInfo("odd")
    info.external_attr = (mode | 0o777) << 16
    assert "'odd' is a" in refused(zipped(tmp_path / "a.zip", (info, b"/etc/passwd")))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_tar_archives_are_refused(kind: bytes, tmp_path: Path) -> None:
    info = tarfile.TarInfo("odd")
    info.type, info.linkname = kind, "/etc/passwd"
    assert "'odd' is a" in refused(tarred(tmp_path / "a.tar.gz", (info, b"")))


def test_a_name_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        made = zipped(tmp_path / "a.zip", ("one", b"1"), ("one", b"2"))
    assert "'one' occurs twice" in refused(made)


def test_bombs_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    zeros = bytes(32 << 20)
    assert "unpacks to" in refused(zipped(tmp_path / "a.zip", ("bomb", zeros)))
    assert "unpacks to" in refused(tarred(tmp_path / "a.tar.gz", (tarfile.TarInfo("bomb"), zeros)))
    noise = zipped(tmp_path / "b.zip", ("one", os.urandom(3000)), ("two", os.urandom(3000)))
    assert "'two' brings it to more than" in refused(noise, ArchiveLimits(total_gib=5000 / 2**30))


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    made = zipped(tmp_path / "a.zip", *((f"m{n}", b"") for n in range(20)))
    assert "20 members" in refused(made, ArchiveLimits(members=19))
    packed = tarred(tmp_path / "a.tar.gz", *((tarfile.TarInfo(f"m{n}"), b"") for n in range(20)))
    assert "more than 19" in refused(packed, ArchiveLimits(members=19))


def changed(path: Path, signature: bytes, offset: int, value: bytes) -> Path:
    data = bytearray(path.read_bytes())
    at = data.rfind(signature) + offset
    data[at : at + len(value)] = value
    path.write_bytes(data)
    return path


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    made = changed(zipped(tmp_path / "a.zip", ("secret", b"x")), b"PK\x01\x02", 8, struct.pack("<H", 1))
    assert "'secret' is encrypted" in refused(made)


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    made = zipped(tmp_path / "a.zip", ("one", b"1" * 50), ("two", b"2" * 50), method=zipfile.ZIP_STORED)
    assert "overlaps" in refused(changed(made, b"PK\x01\x02", 42, struct.pack("<I", 10)))


@pytest.mark.parametrize("claim", [5, 500_000])
def test_a_member_that_lies_about_its_size_is_told_when_it_is_read(claim: int, tmp_path: Path) -> None:
    made = zipped(tmp_path / "a.zip", ("liar", os.urandom(1000)))
    changed(made, b"PK\x01\x02", 24, struct.pack("<I", claim))
    with open_archive(made) as (member,), pytest.raises(UserError, match=r"a.zip is refused: member 'liar'"):
        member.open().read()


@pytest.mark.parametrize("make", [lambda d: d[: len(d) // 2], lambda d: d[:-30], lambda d: b"PK\x03\x04" + d[100:]])
def test_a_damaged_archive_is_named(make: Callable[[bytes], bytes], tmp_path: Path) -> None:
    made = zipped(tmp_path / "a.zip", ("one", os.urandom(500)), ("two", os.urandom(500)))
    made.write_bytes(make(made.read_bytes()))
    with pytest.raises(UserError, match=r"a\.zip is"):
        extract_archive(made, tmp_path)


def test_a_name_that_became_no_text_is_damage(tmp_path: Path) -> None:
    made = zipped(tmp_path / "a.zip", ("one", b"1" * 50))
    raw = bytearray(made.read_bytes())
    raw[7] |= 8  # the header of the member says that its name is UTF-8
    raw[30:33] = b"\x9dne"
    made.write_bytes(raw)
    with pytest.raises(UserError, match="cannot be opened"), open_archive(made) as members:
        next(iter(members)).open()


@pytest.mark.long
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_damage_raises_nothing_but_a_refusal(tmp_path: Path, data: st.DataObject) -> None:
    made = zipped(tmp_path / "a.zip", ("one", b"1" * 50), ("folder/two", b"2" * 50))
    raw = bytearray(made.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    made.write_bytes(raw)
    try:
        with open_archive(made) as members:
            for member in members:
                assert len(member.open().read()) <= member.size
    except UserError:
        return


def test_nothing_is_written_of_an_archive_that_is_refused(tmp_path: Path) -> None:
    made = zipped(tmp_path / "a.zip", ("fine", b"1"), ("../up", b"2"))
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(UserError):
        extract_archive(made, out)
    assert not list(out.iterdir())
    assert not (tmp_path / "up").exists()


def test_a_file_at_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    made = zipped(tmp_path / "a.zip", ("one", b"1"), ("one/two", b"2"))
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(UserError, match="has the path of another member"):
        extract_archive(made, out)
