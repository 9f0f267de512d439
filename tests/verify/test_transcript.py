"""Comparison of what a script could read of its judged programs."""

from __future__ import annotations

import asyncio
import os

import pytest

from assay.verify.transcript import MOST_READINGS, StreamDigest, Transcript


async def read_of(transcript: Transcript, text: bytes, *, unread: bytes = b"", code: int | None = 0) -> None:
    """Adds a command that prints a text, and more where the script has stopped reading."""
    far, near = os.pipe()
    (copy,) = transcript.open_copies([near])
    os.close(near)
    if unread:
        os.close(far)
    os.write(copy.far_end, text)
    while unread and not copy._is_cut:
        await asyncio.sleep(0.01)
    os.write(copy.far_end, unread)
    transcript.add("prog", code, [await copy.finish()])
    if not unread:
        os.close(far)


@pytest.mark.parametrize(
    ("own", "reference", "part"),
    [
        ((b"7\n", 0), (b"7\n", 0), ""),
        ((b"7\n", 0), (b"7", 0), "another text"),
        ((b"7\n", 0), (b"7\n", 1), "another exit code"),
        ((b"7\n", None), (b"7\n", 0), "another exit code"),
    ],
)
async def test_the_first_difference_is_named(own: tuple[bytes, int], reference: tuple[bytes, int], part: str):
    first = Transcript()
    await read_of(first, own[0], code=own[1])
    second = Transcript(expected=first)
    await read_of(second, reference[0], code=reference[1])
    found = first.find_difference(second)
    assert (part in found, bool(found)) == (True, bool(part))


@pytest.mark.parametrize(("text", "same"), [(b"abc", True), (b"abcdef", True), (b"ab", False), (b"abX", False)])
async def test_a_stream_counts_as_far_as_it_was_read(text: bytes, same: bool):
    first = Transcript()
    await read_of(first, b"abc", unread=b"zzz")
    second = Transcript(expected=first)
    await read_of(second, text)
    assert (first.find_difference(second) == "") == same


async def test_of_the_reference_everything_counts():
    first = Transcript()
    await read_of(first, b"abcdef")
    second = Transcript(expected=first)
    await read_of(second, b"abc", unread=b"def")
    assert first.find_difference(second) == ""


def test_missing_and_further_readings_and_files_differ():
    first, second = Transcript(), Transcript()
    first.add_file("/workspace/out", b"x")
    assert "reads 1 results" in first.find_difference(second)
    second.add_file("/workspace/out", None)
    assert "is not there" in first.find_difference(second)


def test_more_readings_than_are_kept_are_a_difference():
    first = Transcript()
    for _ in range(MOST_READINGS + 5):
        first.add("prog", 0, [StreamDigest(0, b"")])
    assert "more than" in first.find_difference(first)
