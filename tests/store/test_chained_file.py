"""Chained files: what is refused in their place, and that a refused append changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from assay.errors import StoreError
from assay.records import digest_record
from assay.store.chained_file import ChainedFile

pytestmark = pytest.mark.quick


class Word(msgspec.Struct, frozen=True):
    """A record."""

    text: str
    previous: str

    @property
    def digest(self) -> str:
        return digest_record(self)


def append(path: Path, text: str, most_bytes: int = 1 << 20) -> None:
    file = ChainedFile(path, Word, most_bytes)
    with file.locked() as add:
        earlier = file.last()
        add(Word(text, earlier.digest if earlier is not None else ""))


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.jsonl"
    for text in ("one", "two", "three"):
        append(path, text)
    return path


def test_the_last_record_is_that_of_the_whole_file(words: Path) -> None:
    file = ChainedFile(words, Word)
    assert file.last() == file.read()[-1]
    assert [one.text for one in file.read()] == ["one", "two", "three"]
    assert ChainedFile(words.with_name("other"), Word).last() is None


@pytest.mark.parametrize(("old", "new"), [(b"one", b"0ne"), (b"three", b"thr\\u0065e"), (b'"text":"two"', b'"text":2')])
def test_a_changed_line_is_noticed_without_decoding_it(words: Path, old: bytes, new: bytes) -> None:
    words.write_bytes(words.read_bytes().replace(old, new))
    with pytest.raises(StoreError, match="was changed"):
        ChainedFile(words, Word).last()


def test_a_link_in_its_place_neither_reads_nor_cuts_another_file(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("a line\na last line without an end")
    for target in (other, tmp_path / "absent"):
        link = tmp_path / f"{target.name}.jsonl"
        link.symlink_to(target)
        for attempted in (lambda link=link: append(link, "x"), ChainedFile(link, Word).read):
            with pytest.raises(StoreError):
                attempted()
    assert other.read_text().endswith("without an end")
    assert not (tmp_path / "absent").exists()


def test_a_pipe_in_its_place_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="no ordinary file"):
        ChainedFile(tmp_path / "pipe", Word).read()
    with pytest.raises(StoreError, match="no ordinary file"):
        append(tmp_path / "pipe", "x")


def test_a_file_beyond_its_limit_stays_as_it_is(words: Path) -> None:
    before = words.read_bytes()
    with pytest.raises(StoreError, match="would be larger"):
        append(words, "x" * 100, most_bytes=len(before) + 50)
    with pytest.raises(StoreError, match="is larger than"):
        append(words, "x", most_bytes=len(before) - 1)
    assert words.read_bytes() == before


def test_a_torn_line_is_ignored_and_replaced_by_the_next_append(words: Path) -> None:
    with words.open("ab") as file:
        file.write(b'{"text":"' + b"x" * 200_000)
    assert len(ChainedFile(words, Word).read()) == 3
    append(words, "four")
    assert [one.text for one in ChainedFile(words, Word).read()] == ["one", "two", "three", "four"]
