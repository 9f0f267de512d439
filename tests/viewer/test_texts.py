"""Texts, values and pictures of strangers: bounded, whole where they are put together, and never taken for more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import UserError
from assay.store import BlobStore
from assay.viewer.pictures import encode_picture, picture_of_text
from assay.viewer.texts import MOST_EXACT, PART, blob_part, cut_text, json_tree, pointer, resolve_pointer, text_part
from tests.viewer.chains_made import as_address, png

pytestmark = pytest.mark.newest
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=30,
)


@given(st.lists(st.text(alphabet="ab é\t", max_size=120), max_size=300))
def test_a_cut_text_is_its_beginning_and_its_end(lines: list[str]) -> None:
    text = "\n".join(lines)
    shown = cut_text(text, "/x")
    if "tail" not in shown:
        assert shown["text"] == text
        return
    assert text.startswith(shown["text"])
    assert text.endswith(shown["tail"])
    assert text.split("\n")[shown["line"] - 1].endswith(shown["tail"].split("\n")[0])
    assert len(shown["text"]) + len(shown["tail"]) <= 6000


@given(JSON)
def test_a_pointer_leads_to_each_value_of_a_tree(value: Any) -> None:
    def check(node: list[Any], at: str) -> None:
        if node[0] == "s":
            assert resolve_pointer({"v": value}, at) == node[1]["text"]
        elif node[0] == "v":
            found = resolve_pointer({"v": value}, at)
            is_rounded = isinstance(found, int) and abs(found) > MOST_EXACT
            assert (str(found) if is_rounded else found) == node[1]
        elif node[0] == "o":
            for key, each in node[1]:
                check(each, at + pointer(key))
        elif node[0] == "a":
            for position, each in enumerate(node[1]):
                check(each, at + pointer(position))

    check(json_tree(value, "/v"), "/v")


def test_a_tree_is_bounded_however_deep_and_wide_a_value_is() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]
    wide = {str(n): [list(range(200)) for _ in range(200)] for n in range(200)}

    def size(node: list[Any]) -> int:
        inner = node[1] if node[0] in "oa" else ()
        return 1 + sum(size(each[1] if node[0] == "o" else each) for each in inner)

    assert size(json_tree(deep, "")) < 20
    assert size(json_tree(wide, "")) <= 2000


@given(st.text(max_size=40).map(lambda text: text * 4000), st.integers(0, 3))
def test_parts_of_a_text_are_the_text(text: str, part: int) -> None:
    if part * PART >= max(len(text), 1):
        with pytest.raises(UserError):
            text_part(text, part)
    else:
        assert text_part(text, part)["text"] == text[part * PART : (part + 1) * PART]


@given(text=st.text(alphabet="aé→🎈\n", min_size=1, max_size=60))
def test_parts_of_a_blob_cut_no_character(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    blobs = BlobStore(tmp_path_factory.getbasetemp() / "blobs")
    whole = text * 3000
    digest = blobs.put(whole.encode())
    first = blob_part(blobs, digest, 0)
    assert "".join(blob_part(blobs, digest, n)["text"] for n in range(first["parts"])) == whole


@pytest.mark.parametrize(
    "address",
    [
        as_address(b"<svg onload=alert(1)>", "image/svg+xml"), as_address(b"<svg/>"), "data:image/png;base64,@@",
        "data:image/png,plain", "http://elsewhere/x.png", "", 7,
    ],
)  # fmt: skip
def test_what_is_no_picture_is_none(address: object) -> None:
    with pytest.raises(UserError, match=r"no .*picture|not a PNG"):
        picture_of_text(address)


def test_a_picture_of_too_many_pixels_is_not_shown() -> None:
    bomb = bytearray(png())
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2
    with pytest.raises(UserError, match="too large"):
        encode_picture(bytes(bomb))


@pytest.mark.parametrize(
    "data",
    [
        b"GIF89a" + (20).to_bytes(2, "little") + (10).to_bytes(2, "little"),
        b"\xff\xd8\xff\xe0\x00\x04\x00\x00\xff\xc0\x00\x11\x08\x00\x0a\x00\x14\x03",
        b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (19).to_bytes(3, "little") + (9).to_bytes(3, "little"),
    ],
)
def test_sizes_are_read_from_other_kinds(data: bytes) -> None:
    found = encode_picture(data)
    assert (found["width"], found["height"]) == (20, 10)


@given(st.binary(max_size=40), st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF0000WEBP"]))
def test_damaged_pictures_are_refused_in_words(rest: bytes, magic: bytes) -> None:
    try:
        told = encode_picture(magic + rest)["type"]
    except UserError as exc:
        told = str(exc)
    assert told.startswith("image/") or "picture" in told


def test_nothing_outside_the_store_is_a_blob(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="is not a content address"):
        blob_part(BlobStore(tmp_path), "../../etc/passwd", 0)
