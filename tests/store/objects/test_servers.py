"""Object stores over the network: a server whose answers are chosen, and SeaweedFS as a process."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from assay.errors import StoreError
from assay.store import audit
from assay.store.objects import (
    ObjectStoreError,
    Publisher,
    UrlObjectStore,
    check_place,
    collect_objects,
    fetch_run,
    open_place,
    places,
    require_create_only,
)
from tests.optional import require_packages
from tests.store.objects.s3_server import S3Server, etag, serve_s3
from tests.store.objects.seaweedfs import SECRET

require_packages("obstore")


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setattr(places, "FIRST_DELAY_S", 0.001)


async def test_a_conflict_is_asked_again(server: S3Server, place: UrlObjectStore) -> None:
    server.script = ["conflict", "conflict"]
    assert await place.create("a", b"1")
    server.script = ["conflict"]
    assert not await place.create("a", b"2")
    assert server.objects == {"runs/a": b"1"}


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_server_is_asked_again_a_bounded_number_of_times(
    server: S3Server, place: UrlObjectStore, status: int
) -> None:
    server.script = [status] * (places.TRIES - 1)
    assert await place.create("a", b"1")
    server.script, server.puts = [status] * 100, 0
    with pytest.raises(ObjectStoreError, match=f"cannot create b: .*{status}.*SlowDown") as error:
        await place.create("b", b"1")
    assert server.puts == places.TRIES
    assert SECRET not in str(error.value)


async def test_a_lost_answer_is_an_error_and_asking_again_resolves_it(server: S3Server, place: UrlObjectStore) -> None:
    server.script = ["lost"]
    with pytest.raises(ObjectStoreError, match="the answer was lost, and the same content is there"):
        await place.create("a", b"1")
    assert not await place.create("a", b"1")
    assert await place.read("a") == b"1"


async def test_anothers_object_after_a_failure_is_no_lost_answer(server: S3Server, place: UrlObjectStore) -> None:
    server.objects["runs/a"] = b"another's"
    server.script = [503]
    assert not await place.create("a", b"1")


async def test_a_refusal_of_rights_is_not_asked_again(server: S3Server, place: UrlObjectStore) -> None:
    server.script = [403] * 100
    for already, asked in ((0, 2), (2, 1)):  # at first by our own request, whose refusal is left to obstore
        with pytest.raises(ObjectStoreError, match="403"):
            await place.create("a", b"1")
        assert server.puts == already + asked


async def test_a_server_that_is_down_is_named(place: UrlObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{reserved.getsockname()[1]}")
        with pytest.raises(ObjectStoreError, match="s3://bucket/x: cannot create") as error:
            await require_create_only(open_place("s3://bucket/x"))
    assert SECRET not in str(error.value)


async def test_the_self_test_passes_a_server_that_honours_conditions(server: S3Server, place: UrlObjectStore) -> None:
    await require_create_only(place)
    assert server.objects == {}


async def test_the_self_test_refuses_a_server_that_ignores_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_s3(S3Server(honours_conditions=False)) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(StoreError, match=r"s3://bucket overwrites an object that exists .*If-None-Match"):
            await require_create_only(open_place("s3://bucket"))


CONDITIONS = {
    "s3://box/pre": ("/box/pre/a/b", "If-None-Match", "*"),
    "az://box/pre": ("/box/pre/a/b", "If-None-Match", "*"),
    "gs://box/pre": ("/box/pre%2Fa%2Fb", "x-goog-if-generation-match", "0"),
}


@pytest.mark.parametrize(("url", "condition"), CONDITIONS.items())
async def test_each_vendor_is_asked_in_its_own_words(
    url: str, condition: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str | None]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        asked.append((request.raw_path, request.headers.get(condition[1])))
        return web.Response(status=201, headers={"ETag": etag(b"1"), "x-goog-generation": "1"})

    app = web.Application()
    app.router.add_put("/{key:.+}", answer)
    async with TestServer(app) as running:
        endpoint = str(running.make_url("/")).rstrip("/")
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5a2V5")
        account = {"gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
        (tmp_path / "account.json").write_text(json.dumps({**account, "private_key_id": ""}))
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
        assert await open_place(url).create("a/b", b"1")
    assert asked == [(condition[0], condition[2])]


@pytest.mark.long
async def test_a_run_goes_to_seaweedfs_and_back(
    seaweedfs: str, sealed_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweedfs)
    place = open_place("s3://bucket/runs")
    twins = [Publisher(sealed_store, place).publish("r") for _ in range(3)]
    reports = await asyncio.gather(*twins)
    assert sum(report.sent for report in reports) == reports[0].sent + reports[0].already
    assert (await check_place(place)).problems == ()
    await fetch_run(place, "r", tmp_path)
    assert audit(tmp_path, "r") == ()
    assert (await collect_objects(place, min_age_s=0)).objects == ()


@pytest.mark.long
async def test_seaweedfs_lets_one_of_many_racers_win(seaweedfs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweedfs)
    place = open_place("s3://bucket/race")
    for race in range(3):
        contents = [bytes([number]) * 50_000 for number in range(4)]
        answers = await asyncio.gather(*(place.create(f"{race}", content) for content in contents))
        assert answers.count(True) == 1
        assert await place.read(f"{race}") == contents[answers.index(True)]
