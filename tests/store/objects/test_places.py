"""Memory and folders behind URLs keep the contract of `ObjectStore`, and bad URLs are refused without their secrets."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from assay.errors import MissingLibraryError, StoreError, UserError
from assay.store.objects import (
    ObjectEntry,
    ObjectStore,
    ObjectStoreError,
    UrlObjectStore,
    collect_objects,
    open_place,
    require_create_only,
)
from assay.store.objects.places import _line
from tests.optional import require_packages
from tests.store.objects.simulated import OverwritingStore, SimulatedStore, TwoWinnersStore

require_packages("obstore")


@pytest.fixture(params=["memory", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> UrlObjectStore:
    return open_place("memory://" if request.param == "memory" else f"file://{tmp_path}/objects", create=True)


async def keys(place: ObjectStore, prefix: str, after: str = "") -> list[str]:
    return [one.key async for page in place.list(prefix, after=after) for one in page]


async def test_an_object_is_created_once(place: UrlObjectStore) -> None:
    assert isinstance(place, ObjectStore)
    assert await place.create("a/b", b"first")
    assert not await place.create("a/b", b"second")
    assert await place.read("a/b") == b"first"


async def test_simultaneous_creations_have_one_winner(place: UrlObjectStore) -> None:
    contents = [bytes([number]) * 100_000 for number in range(16)]
    answers = await asyncio.gather(*(place.create("race", content) for content in contents))
    assert answers.count(True) == 1
    assert await place.read("race") == contents[answers.index(True)]


async def test_reading_names_what_is_absent_or_too_long(place: UrlObjectStore) -> None:
    await place.create("a", b"12345")
    assert await place.read("a", limit=5) == b"12345"
    with pytest.raises(ValueError, match="more than 4"):
        await place.read("a", limit=4)
    with pytest.raises(FileNotFoundError, match="a/b"):
        await place.read("a/b/c" if "memory" in place.url else "z/a/b")


async def test_a_listed_size_changes_what_a_read_costs_and_not_what_it_gives(place: UrlObjectStore) -> None:
    await place.create("a", b"12345")
    assert [await place.read("a", size=size) for size in (5, 0, 9)] == [b"12345"] * 3  # 9: it was cut since
    with pytest.raises(ValueError, match="more than 4"):
        await place.read("a", limit=4, size=5)
    with pytest.raises(FileNotFoundError, match="absent"):
        await place.read("absent", size=5)


async def test_listing_is_ordered_and_goes_on_after_a_key(place: UrlObjectStore) -> None:
    for key in ("r/a-1/x", "r/a/x", "r/a0/x", "s"):
        await place.create(key, b"12")
    assert await keys(place, "r/") == ["r/a-1/x", "r/a/x", "r/a0/x"]
    assert await keys(place, "r/a/") == ["r/a/x"]
    assert await keys(place, "r/a", "r/a-1/x") == ["r/a/x", "r/a0/x"]
    assert await keys(place, "absent/") == []
    (page,) = [page async for page in place.list("s")]
    assert page == [ObjectEntry("s", 2, page[0].modified)]
    assert page[0].modified > 1.7e9


async def test_deleting_is_idempotent(place: UrlObjectStore) -> None:
    await place.create("a", b"")
    await place.delete("a")
    await place.delete("a")
    assert await keys(place, "") == []


@pytest.mark.parametrize("key", ["", "/a", "a//b", "../a", "a/./b"])
async def test_keys_are_plain_segments(place: UrlObjectStore, key: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        await place.create(key, b"")


WRONG = {
    "http://host/x": "not a kind of object store",
    "s3://": "invalid",
    "s3://KEY:SECRET@bucket/x": "credentials belong in the environment",
    "gs://bucket/x?token=SECRET": "invalid",
    "file://host/x": "does not exist",
    "file:///a%00b": "is not a folder's URL",
    "/nowhere/at/all": "does not exist",
}


@pytest.mark.parametrize(("url", "what"), WRONG.items())
def test_a_bad_url_is_refused_without_its_secrets(url: str, what: str) -> None:
    with pytest.raises(UserError, match=what) as refused:
        open_place(url)
    assert "SECRET" not in str(refused.value)


def test_a_folder_with_spaces_and_letters_beyond_ascii_has_a_url_of_one_word(tmp_path: Path) -> None:
    folder = tmp_path / "my ünits" / "100%25"
    opened = open_place(folder.as_uri(), create=True)
    assert folder.is_dir()
    assert str(opened) == folder.as_uri()
    assert " " not in str(opened)
    for same in (str(opened), f"file://{folder}", str(folder)):
        assert str(open_place(same)) == str(opened)


def test_a_store_is_not_taken_for_a_folder_of_objects(sealed_store: Path) -> None:
    with pytest.raises(UserError, match="is a store"):
        open_place(f"file://{sealed_store}")


def test_errors_name_no_signed_query() -> None:
    error = "Error performing PUT https://host/a/b?sig=SECRET in 2 ms - 403: <Error><Code>Denied</Code></Error>\nmore"
    assert _line(error) == "Error performing PUT https://host/a/b in 2 ms - 403 (Denied)"


def test_errors_name_no_password_of_an_endpoint() -> None:
    error = "Error performing GET http://user:p@SECRET@127.0.0.1:9/?sig=SECRET in 2 ms; see https://host/a@b"
    assert _line(error) == "Error performing GET http://127.0.0.1:9/ in 2 ms; see https://host/a@b"


async def test_a_name_that_is_no_key_is_an_error_and_not_a_place_that_does_not_answer(tmp_path: Path) -> None:
    place = open_place(f"{tmp_path}/objects", create=True)
    await place.create("runs/r/a", b"")
    (tmp_path / "objects" / "runs" / "r" / "b\x1b[31m").write_bytes(b"")
    with pytest.raises(StoreError, match="has a name that is no key") as refused:
        await keys(place, "runs/r/")
    assert not isinstance(refused.value, ObjectStoreError)


async def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    place = open_place(f"{tmp_path}/objects", create=True)
    (tmp_path / "objects" / "a").write_bytes(b"a file where a folder belongs")
    with pytest.raises(ObjectStoreError, match="cannot create a/b"):
        await place.create("a/b", b"")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingLibraryError, match=r"assay\[cloud\]"):
        open_place("memory://")


async def test_the_self_test_passes_and_leaves_nothing(place: UrlObjectStore) -> None:
    await require_create_only(place)
    assert await keys(place, "") == []


@pytest.mark.parametrize(
    ("refused", "what"),
    [(OverwritingStore(), "overwrites an object that exists"), (TwoWinnersStore(), "let 8 of 8 simultaneous")],
)
async def test_the_self_test_refuses_a_store_that_is_not_create_only(refused: SimulatedStore, what: str) -> None:
    with pytest.raises(StoreError, match=what) as error:
        await require_create_only(refused)
    assert "Use a store with conditional writes" in str(error.value)
    assert refused.objects == {}


@pytest.mark.parametrize("link", ["blobs", "blobs/ab"])
async def test_collection_deletes_no_file_to_which_a_link_leads(tmp_path: Path, link: str) -> None:
    name = "ab" + "0" * 62
    (own := tmp_path / "objects" / link).parent.mkdir(parents=True)
    (other := tmp_path / "elsewhere" / "ab").mkdir(parents=True)
    (other / name).write_text("thesis")
    own.symlink_to(other.parent if link == "blobs" else other)
    with pytest.raises(StoreError, match=r"not deleted, because a link leads there"):
        await collect_objects(open_place(str(tmp_path / "objects")), dry_run=False, min_age_s=0)
    assert (other / name).read_text() == "thesis"
