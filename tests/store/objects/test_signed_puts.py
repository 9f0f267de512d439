"""Small objects of S3 are created by signed requests of our own; what these do not settle is obstore's."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvloop
from aiohttp import web
from aiohttp.test_utils import TestServer

from assay.errors import StoreError, UserError
from assay.rollout.cluster.objects import create_or_read
from assay.store.objects import ObjectStoreError, UrlObjectStore, open_place, places, signed_puts
from assay.store.objects.signed_puts import Credentials, Signer
from tests.optional import require_packages
from tests.store.objects.s3_server import S3Server, etag, serve_s3
from tests.store.objects.seaweedfs import KEY_ID, SECRET

require_packages("obstore")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("AWS_") or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setattr(places, "FIRST_DELAY_S", 0.001)


@pytest.fixture
def by_obstore(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that obstore was asked to create."""
    keys: list[str] = []
    put = UrlObjectStore._put

    async def record(self: UrlObjectStore, key: str, data: bytes) -> bool:
        keys.append(key)
        return await put(self, key, data)

    monkeypatch.setattr(UrlObjectStore, "_put", record)
    return keys


def test_a_signature_is_the_published_one() -> None:
    """The example "PUT Object" of the documentation of Amazon S3, with its key."""
    signer = Signer(Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), "us-east-1")
    digest = hashlib.sha256(b"Welcome to Amazon S3.").hexdigest()
    names = "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class"
    request = (
        "PUT\n/test%24file.text\n\ndate:Fri, 24 May 2013 00:00:00 GMT\nhost:examplebucket.s3.amazonaws.com\n"
        f"x-amz-content-sha256:{digest}\nx-amz-date:20130524T000000Z\nx-amz-storage-class:REDUCED_REDUNDANCY\n\n"
        f"{names}\n{digest}"
    )
    assert signer.authorization("20130524T000000Z", names, request) == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        f"SignedHeaders={names},Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
    )


def test_each_day_has_its_own_key() -> None:
    credentials = Credentials(KEY_ID, SECRET)
    signer = Signer(credentials, "us-east-1")
    stamps = ["20261130T235959Z", "20261201T000000Z", "20261130T235959Z"]
    signatures = [signer.authorization(stamp, "host", "") for stamp in stamps]
    assert signatures == [Signer(credentials, "us-east-1").authorization(stamp, "host", "") for stamp in stamps]


def test_the_text_of_credentials_shows_no_secret() -> None:
    assert SECRET not in f"{Credentials(KEY_ID, SECRET, SECRET)}"


@pytest.mark.long
async def test_a_server_that_verifies_signatures_takes_ours(
    seaweedfs: str, by_obstore: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweedfs)
    place = open_place("s3://bucket/signed")
    key = "runs/=blake3-ab/finals/0f/task=2f1@12.x_y"
    assert await place.create(key, b"1")
    assert not await place.create(key, b"2")
    assert await place.create("empty", b"")
    assert await place.read(key) == b"1"
    assert [one.key async for page in place.list("runs/") for one in page] == [key]
    assert by_obstore == []
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(ObjectStoreError, match=r"403|SignatureDoesNotMatch") as refused:
        await open_place("s3://bucket/signed").create("b", b"1")
    assert "another" not in str(refused.value)
    assert by_obstore == ["b"]


@pytest.mark.long
def test_objects_are_created_in_uvloop(seaweedfs: str, by_obstore: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's actors have that event loop where it is installed."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweedfs)

    async def create_all() -> list[bool]:
        place = open_place("s3://bucket/uvloop")
        return await asyncio.gather(*(place.create(f"{number // 2}", b"%d" % number) for number in range(100)))

    assert sum(uvloop.run(create_all())) == 50
    assert len(by_obstore) < 50


async def test_conditions_are_answered(server: S3Server, place: UrlObjectStore, by_obstore: list[str]) -> None:
    server.script = ["conflict"]
    assert await place.create("a", b"1")  # the second try is obstore's
    assert not await place.create("a", b"1")
    assert by_obstore == ["a"]
    assert (await place.create("b", b"2"), server.puts, by_obstore) == (True, 4, ["a"])


@pytest.mark.parametrize("word", ["lost", 500, 503, 429])
async def test_a_failure_is_not_the_end_of_signed_requests(
    server: S3Server, place: UrlObjectStore, by_obstore: list[str], word: int | str
) -> None:
    server.script = [word]
    if word == "lost":
        with pytest.raises(ObjectStoreError, match="the answer was lost"):
            await place.create("a", b"1")
    else:
        assert await place.create("a", b"1")
    assert by_obstore == ["a"]
    assert await place.create("b", b"1")
    assert by_obstore == ["a"]


async def test_after_a_request_that_was_understood_otherwise_obstore_creates(
    server: S3Server, place: UrlObjectStore, by_obstore: list[str]
) -> None:
    server.script = [400]
    assert await place.create("a", b"1")
    assert await place.create("b", b"1")
    assert by_obstore == ["a", "b"]


async def test_an_object_that_a_refused_request_created_is_no_others(server: S3Server, place: UrlObjectStore) -> None:
    server.objects["runs/a"] = b"1"
    server.script = [400]
    with pytest.raises(ObjectStoreError, match="the answer was lost, and the same content is there"):
        await place.create("a", b"1")


@pytest.mark.parametrize(("scheme", "is_repeated"), [("http", True), ("https", False)], ids=["refused", "not TLS"])
async def test_a_request_that_was_never_sent_has_no_lost_answer(
    server: S3Server, place: UrlObjectStore, by_obstore: list[str], scheme: str, is_repeated: bool
) -> None:
    """A server that only obstore can reach. One that is down may come back; TLS that fails once fails again."""
    signed = place._signed
    assert signed is not None
    port = urlsplit(signed._bucket.origin).port if scheme == "https" else 1
    signed._bucket = signed._bucket._replace(origin=f"{scheme}://127.0.0.1:{port}")
    server.objects["runs/a"] = b"1"
    assert not await place.create("a", b"1")
    assert (server.puts, by_obstore, signed.accepts("b", b"1")) == (1, ["a"], is_repeated)


@pytest.mark.parametrize(
    ("status", "size", "is_signed"), [(201, 0, True), (204, 0, True), (200, signed_puts.MOST_ANSWER_BYTES + 1, False)]
)
async def test_each_success_means_created_unless_its_answer_is_too_long(
    by_obstore: list[str], monkeypatch: pytest.MonkeyPatch, status: int, size: int, is_signed: bool
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(status=status, body=bytes(size), headers={"ETag": etag(b"1")})

    app = web.Application()
    app.router.add_put("/{key:.+}", answer)
    async with TestServer(app) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", str(running.make_url("/")).rstrip("/"))
        assert await open_place("s3://bucket").create("a", b"1")
    assert by_obstore == ([] if is_signed else ["a"])


async def test_a_portal_that_answers_every_request_creates_nothing(
    monkeypatch: pytest.MonkeyPatch, by_obstore: list[str]
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(text="<html>Welcome</html>", content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{key:.+}", answer)
    async with TestServer(app) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", str(running.make_url("/")).rstrip("/"))
        with pytest.raises(ObjectStoreError, match="ETag"):
            await open_place("s3://bucket").create("a", b"1")
    assert by_obstore


class Tagging:
    """A bucket of which each object has a tag of its own that is no digest, as with encryption by KMS."""

    def __init__(self) -> None:
        self.tags: dict[str, str] = {}

    async def put(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        tag = self.tags.setdefault(request.path, f'"{len(self.tags)}"')
        return web.Response(headers={"ETag": tag})

    async def head(self, request: web.Request) -> web.StreamResponse:
        headers = {"ETag": self.tags[request.path], "Last-Modified": "Sat, 28 Nov 2026 05:00:00 GMT"}
        return web.Response(headers=headers | {"Content-Length": "1"})


async def test_tags_that_are_no_digests_are_compared_with_those_of_the_objects(
    monkeypatch: pytest.MonkeyPatch, by_obstore: list[str]
) -> None:
    bucket, app = Tagging(), web.Application()
    app.router.add_put("/{key:.+}", bucket.put)
    app.router.add_route("HEAD", "/{key:.+}", bucket.head)
    async with TestServer(app) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", str(running.make_url("/")).rstrip("/"))
        place = open_place("s3://bucket")
        assert await place.create("a", b"1")
        assert by_obstore == []
        assert await place.create("b", b"1")
    assert by_obstore == ["b"]  # a request more for each object would cost more than obstore's


async def test_the_answer_to_another_request_is_no_answer(
    server: S3Server, place: UrlObjectStore, by_obstore: list[str]
) -> None:
    """As after a server or a proxy that repeated an answer on a connection."""
    server.objects["runs/a"] = server.objects["runs/b"] = b"0"
    server.script = [etag(b"another")]
    assert not await place.create("a", b"1")
    assert not await place.create("b", b"1")
    assert by_obstore == ["a", "b"]


@pytest.mark.parametrize(("key", "size"), [("large", signed_puts.MOST_BYTES + 1), ("a b", 1), ("ü", 1), ("a%20", 1)])
async def test_large_objects_and_other_keys_are_left_to_obstore(
    place: UrlObjectStore, by_obstore: list[str], key: str, size: int
) -> None:
    assert await place.create(key, bytes(size))
    assert by_obstore == [key]
    assert len(await place.read(key)) == size


LEFT = {
    "encryption": {"AWS_SERVER_SIDE_ENCRYPTION": "AES256"},
    "a checksum": {"AWS_CHECKSUM_ALGORITHM": "sha256"},
    "no signature": {"AWS_SKIP_SIGNATURE": "true"},
    "a role": {"AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere", "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"},
    "no secret": {"AWS_SECRET_ACCESS_KEY": ""},
    "a password in the endpoint": {"AWS_ENDPOINT_URL": "http://user:word@127.0.0.1:1"},
    "a query in the endpoint": {"AWS_ENDPOINT_URL": "http://127.0.0.1:1?a=b"},
    "a key that a scope cannot hold": {"AWS_ACCESS_KEY_ID": "a/b"},
    "a proxy": {"HTTP_PROXY": "http://127.0.0.1:1"},
    "a proxy with an exception": {"ALL_PROXY": "http://127.0.0.1:1", "NO_PROXY": "127.0.0.1"},
    "a proxy in other letters": {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": ""},
}


@pytest.mark.parametrize("others", LEFT.values(), ids=LEFT)
def test_other_settings_are_left_to_obstore(others: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"} | others).items():
        monkeypatch.setenv(name, value)
    assert open_place("s3://bucket/x")._signed is None


UNUSABLE = [
    ("AWS_SESSION_TOKEN", "a-token\nhost: b"),
    ("AWS_SECRET_ACCESS_KEY", "a-token\n"),
    ("AWS_REGION", "us\r\nx-other: 1"),
    *[("AWS_ENDPOINT_URL", url) for url in ("", "nonsense", "ftp://a", "http://", "http://a:b", "http://a:99999")],
    *[("AWS_ENDPOINT", url) for url in ("http://a:0", "http://a b", "http://[a", "http://a/b c")],
]


@pytest.mark.parametrize(("name", "value"), UNUSABLE)
def test_a_variable_of_which_no_request_can_be_made_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """obstore's threads panic at them."""
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=f"{name} ") as refused:
        open_place("s3://bucket/x")
    assert "a-token" not in str(refused.value)


async def test_an_option_that_takes_creation_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    place = open_place("s3://bucket/x")
    with pytest.raises(StoreError, match=r"options of this environment: .*conditional put is disabled"):
        await create_or_read(place, "a", b"1", limit=100)  # it repeats what a later answer may change


async def test_a_panic_of_obstore_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"gcs_base_url": "nonsense", "disable_oauth": True, "client_email": "", "private_key": ""}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(keys | {"private_key_id": ""}))
    place = open_place("gs://bucket/x")
    for request in (place.create("a", b"1"), place.read("a"), place.delete("a"), anext(place.list("a"))):
        with pytest.raises(ObjectStoreError, match=r"cannot \w+ a: RustPanic"):
            await request


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "AWS_PROFILE", "AWS_PAGER", "AWS_EC2_METADATA_DISABLED"])
def test_settings_of_other_programs_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    assert open_place("s3://bucket/x")._signed is not None


async def test_a_session_token_is_sent_and_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        seen.append(request)
        return web.Response(headers={"ETag": etag(b"1")})

    app = web.Application()
    app.router.add_put("/{key:.+}", answer)
    async with TestServer(app) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", str(running.make_url("/")).rstrip("/"))
        monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token")
        assert await open_place("s3://bucket").create("a@1/b=2", b"1")
    (request,) = seen
    assert (request.raw_path, request.headers["If-None-Match"]) == ("/bucket/a%401/b%3D2", "*")
    assert request.headers["x-amz-security-token"] == "a-token"
    assert request.headers["x-amz-content-sha256"] == hashlib.sha256(b"1").hexdigest()
    assert "x-amz-date;x-amz-security-token," in request.headers["Authorization"]


@pytest.mark.parametrize("text", ["denied: {}", "<Error><Code>{}</Code></Error>"])
@pytest.mark.parametrize("status", [403, 500])
async def test_a_server_that_repeats_the_token_puts_it_into_no_error(
    text: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(status=status, text=text.format(request.headers["x-amz-security-token"]))

    app = web.Application()
    app.router.add_put("/{key:.+}", answer)
    async with TestServer(app) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", str(running.make_url("/")).rstrip("/"))
        monkeypatch.setenv("AWS_SESSION_TOKEN", "a1token")
        with pytest.raises(ObjectStoreError, match=f"{status}") as refused:
            await open_place("s3://bucket").create("a", b"1")
    assert "a1token" not in str(refused.value)


async def test_a_certificate_of_another_is_refused(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_obstore: list[str]
) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"]
    options += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, "req", *options], check=True, capture_output=True)
    async with serve_s3(server, certificate=certificate, key=key) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(ObjectStoreError, match=r"certificate|error sending request"):
            await open_place("s3://bucket").create("a", b"1")
        assert by_obstore
        by_obstore.clear()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert await open_place("s3://bucket").create("a", b"1")
    assert by_obstore == []


async def test_loops_of_several_threads_have_their_own_connections(server: S3Server, place: UrlObjectStore) -> None:
    answers: list[list[bool]] = []

    def work(name: str) -> None:
        async def create() -> list[bool]:
            return await asyncio.gather(*(place.create(f"{name}/{number}", b"1") for number in range(20)))

        for turn in range(3):
            name = f"{name}{turn}"
            answers.append(asyncio.run(create()))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads):
        await asyncio.sleep(0.01)
    assert answers == [[True] * 20] * 9
    assert place._signed is not None
    assert len(place._signed._clients) == 0


PROGRAM = """
import asyncio, gc, sys
from assay.store.objects import open_place

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is no open connection
    place = open_place("s3://bucket/runs")
    assert await place.create("a" + sys.argv[1], b"1")
    if sys.argv[1] == "dropped":
        del place
        gc.collect()
        await asyncio.sleep(0.01)
    if sys.argv[1] == "cancelled":
        tasks = [asyncio.ensure_future(place.create(f"{number}", b"1")) for number in range(20)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

asyncio.run(main())
gc.collect()
"""


@pytest.mark.parametrize("how", ["whole", "dropped", "cancelled"])
async def test_no_connection_is_left_open(server: S3Server, place: UrlObjectStore, how: str) -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM, how]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, output) == (0, b"")


LOOPS = """
import asyncio, gc, socket
from assay.store.objects import open_place

place = open_place("s3://bucket/runs")
for number in range(20):
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(place.create(f"{number}", b"1"))
    loop.close()
del loop
gc.collect()
print(sum(isinstance(one, socket.socket) and one.fileno() >= 0 for one in gc.get_objects()))
"""


async def test_loops_that_were_closed_without_a_shutdown_keep_no_connections(place: UrlObjectStore) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", LOOPS, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, output) == (0, b"1\n")


async def test_a_server_that_closes_idle_connections_costs_no_failure(
    place: UrlObjectStore, monkeypatch: pytest.MonkeyPatch, by_obstore: list[str]
) -> None:
    """Each answer is the last of its connection, whose end comes a moment later."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n1")
        writer.write(f"HTTP/1.1 200 OK\r\nETag: {etag(b'1')}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        closing = open_place("s3://bucket")
        for number in range(5):
            assert await closing.create(f"{number}", b"1")
            await asyncio.sleep(0.01)
    assert by_obstore == []


def test_timestamps_are_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert signed_puts._stamp(1_369_353_600) == "20130524T000000Z"
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


async def test_a_server_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{reserved.getsockname()[1]}")
        with pytest.raises(ObjectStoreError, match="s3://bucket/x: cannot create a") as error:
            await open_place("s3://bucket/x").create("a", b"1")
    assert SECRET not in str(error.value)
