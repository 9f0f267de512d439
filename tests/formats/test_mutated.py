"""Real files with a few values changed for others, or cut: every reader reads on or refuses, and none raises."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import UserError
from assay.formats.interface import Format, ImportContext
from assay.formats.registry import load_formats, matching_formats
from assay.records import canonical_bytes, digest_bytes

HERE = Path(__file__).parent
JUNK = (b"null", b"7", b"[]", b"{}", b'"x"', b"-1", b"true", b"1e999", b"[1]", b'{"a": 1}', b"NaN", b"10" * 30)
VALUE = re.compile(rb'(?<=[:\[,])\s?("(?:[^"\\]|\\.)*"|-?\d[\d.]*|true|false|null|\[\]|\{\})')
FILES = sorted(p for p in HERE.rglob("*") if p.is_file() and p.suffix in (".json", ".jsonl", ".traj", ".eval"))
JOBS = sorted((HERE / "fixtures" / "harbor").iterdir())
QUICK = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def mutated(raw: bytes, chance: random.Random) -> bytes:
    changed = bytearray(raw)
    places = list(VALUE.finditer(raw))
    for found in sorted(chance.sample(places, min(len(places), chance.randrange(1, 6))), key=lambda m: -m.start(1)):
        changed[found.start(1) : found.end(1)] = chance.choice(JUNK)
    if not places:
        for _ in range(3):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(len(changed) + 1)] if chance.random() < 0.2 else changed)


def read_on(format: Format, path: Path) -> None:
    try:
        for found in format.read(path, ImportContext(digest_bytes, lambda _: None)):
            canonical_bytes([found.started, found.bodies])
    except UserError:
        return


@pytest.mark.parametrize("name", sorted({p.parent.name for p in FILES}))
def test_a_changed_file_raises_nothing(name: str, tmp_path: Path) -> None:
    files = [p for p in FILES if p.parent.name == name and p.stat().st_size < 1 << 20]
    known = load_formats()

    @QUICK
    @given(st.sampled_from(files), st.integers(0, 2**32))
    def reads(path: Path, seed: int) -> None:
        copy = tmp_path / path.name
        copy.write_bytes(mutated(path.read_bytes(), random.Random(seed)))
        for format in matching_formats(path, known):
            read_on(format, copy)

    reads()


@pytest.mark.long
@QUICK
@given(st.sampled_from(JOBS), st.integers(0, 2**32))
def test_a_changed_job_folder_raises_nothing(tmp_path: Path, job: Path, seed: int) -> None:
    chance = random.Random(seed)
    copy = tmp_path / "job"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(job, copy)
    path = chance.choice(sorted(p for p in copy.rglob("*") if p.is_file()))
    path.write_bytes(mutated(path.read_bytes(), chance))
    (harbor,) = (f for f in load_formats() if f.name == "harbor")
    read_on(harbor, copy)
