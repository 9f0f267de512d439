"""Files of a world: names, sizes and types that are refused; forms with files as browsers and attackers send them."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest

from assay.environments.services.apps.attachments import attachments
from assay.environments.services.apps.tracker import tracker
from assay.environments.services.composition import compose
from assay.environments.services.files import MOST_FILE, MOST_SENT, FileStore, files, media_type
from assay.environments.services.pages.multipart import read_multipart
from assay.environments.services.pages.site import Site
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.http.messages import RequestHead, Response
from assay.synthesis.services.family import ServiceTasks

TYPE = "multipart/form-data; boundary=----x"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
GIVEN = [
    {"name": "report.csv", "text": "a,b\n1,2\n"},
    {"name": "page.html", "text": "<script>alert(1)</script>"},
    {"name": "picture.png", "base64": base64.b64encode(PNG).decode()},
    {"name": "data.bin", "base64": "AAEC"},
]
ATTACH = "/attachments/attach_file"


def open_world(seed: int = 1, **knobs: Any) -> ServiceWorld:
    return ServiceWorld.of([tracker, attachments], seed, {"files": knobs or {"files": GIVEN}})


def part(name: str, content: bytes, file: str | None = None) -> bytes:
    named = f'; filename="{file}"' if file is not None else ""
    head = f'------x\r\nContent-Disposition: form-data; name="{name}"{named}\r\nContent-Type: image/png\r\n\r\n'
    return head.encode() + content + b"\r\n"


async def send(site: Site, *parts: bytes, target: str = ATTACH, kind: str = TYPE) -> Response:
    head = RequestHead("POST", target, {"content-type": kind, "host": "x.test", "origin": "http://x.test"})
    return await site.answer(head, b"".join([*parts, b"------x--\r\n"]))


def open_site(world: ServiceWorld) -> Site:
    return Site(world, ServedTools(world))


def issue_of(world: ServiceWorld) -> str:
    return str(world.database.connection.execute("SELECT id FROM tracker_issues").fetchone()[0])


def form(world: ServiceWorld, name: str, content: bytes) -> list[bytes]:
    return [part("_form", b"1"), part("f-issue_id", issue_of(world).encode()), part("f-file", content, name)]


async def test_a_form_with_a_file_ends_as_the_calls_of_tools() -> None:
    for name, content in (("report.csv", b"a,b\n1,2\n"), ("own.txt", "größe".encode()), ("none.txt", b"")):
        by_tools, by_pages = open_world(), open_world()
        if name != "report.csv":
            sent = {"name": name, "base64": base64.b64encode(content).decode()}
            assert not by_tools.act("put_file", sent).error
        assert not by_tools.act("attach_file", {"issue_id": issue_of(by_tools), "file": name}).error
        response = await send(open_site(by_pages), *form(by_pages, name, content))
        assert response.status == 303
        assert by_pages.calls == by_tools.calls
        assert await by_pages.digest() == await by_tools.digest()


async def test_texts_and_bytes_give_one_digest() -> None:
    worlds = open_world(), open_world()
    for world, content in zip(worlds, ({"text": "ä\n"}, {"base64": "w6QK"}), strict=True):
        assert not world.act("put_file", {"name": "a.txt", **content}).error
    assert await worlds[0].digest() == await worlds[1].digest()


@pytest.mark.parametrize(
    "name",
    [
        "../report.csv",
        "..\\report.csv",
        "/etc/passwd",
        "C:\\a.txt",
        "..",
        ".hidden",
        "a\u202etxt.exe",
        "a\nb",
        " a",
        "x" * 101,
    ],
)
async def test_names_that_are_no_names_are_refused(name: str) -> None:
    world = open_world()
    assert "name of a file" in world.act("put_file", {"name": name, "text": "x"}).content.replace(
        "Expected `str` of length <= 100", "name of a file"
    )
    before = await world.digest()
    response = await send(open_site(world), *form(world, name.replace("\n", "%0A"), b"x"))
    assert response.status == 422
    assert await world.digest() == before


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("big.txt", b"x" * (MOST_FILE + 1), "at most 128 KiB"),
        ("script.png", b"<script>alert(1)</script>", "has not the content of a file of type image/png"),
        ("report.csv", b"another", "is a file of the person"),
        ("data.bin", b"\0\1\2", "which is not taken here"),
    ],
)
async def test_contents_that_cannot_be_taken_are_refused_beside_their_field(
    name: str, content: bytes, problem: str
) -> None:
    world = open_world()
    response = await send(open_site(world), *form(world, name, content))
    assert response.status == 422
    assert problem in response.body.decode()
    assert not world.facts()["changes"]


def test_all_files_of_a_world_are_bounded() -> None:
    world, results = open_world(), []
    for at in range(MOST_SENT // MOST_FILE + 1):
        results.append(world.act("put_file", {"name": f"{at}.txt", "text": f"{at}" * MOST_FILE}))
    assert "All files together have at most 1024 KiB" in results[-1].content
    assert world.act("put_file", {"name": "0.txt", "text": "y" * MOST_FILE}).error  # the content before it stays
    for at in range(70):
        results.append(world.act("put_file", {"name": f"small-{at}.txt", "text": ""}))
    assert "There are 64 files already" in results[-1].content


@pytest.mark.parametrize(
    ("name", "kind", "disposition"),
    [
        ("report.csv", "text/plain; charset=utf-8", None),
        ("page.html", "text/plain; charset=utf-8", None),
        ("picture.png", "image/png", None),
        ("data.bin", "application/octet-stream", "attachment"),
    ],
)
async def test_contents_are_served_inert(name: str, kind: str, disposition: str | None) -> None:
    world = open_world()
    digest = next(row[1] for row in world.database.connection.execute("SELECT * FROM files_files") if row[0] == name)
    response = await open_site(world).answer(RequestHead("GET", f"/-/files/{digest}", {}))
    assert response.headers["Content-Type"] == kind
    assert response.headers.get("Content-Disposition") == disposition
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response.headers["Content-Security-Policy"]
    found = FileStore(world).named(name)
    assert found is not None
    assert response.body == found.content


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b""),
        (TYPE, b""),
        (TYPE, part("a", b"1")),
        (TYPE, b"------x\r\n\r\nno head\r\n------x--"),
        (TYPE, b"------x\r\nContent-Disposition: form-data\r\n\r\nno name\r\n------x--"),
        (TYPE, b"".join(part("f", b"x", f"{at}.txt") for at in range(21)) + b"------x--"),
        (TYPE, part("a", b"") * 4_100 + b"------x--"),
        (TYPE, b"before\r\n" + part("a", b"1") + b"------x--"),
    ],
)
async def test_forms_that_no_browser_sends_are_refused(kind: str, body: bytes) -> None:
    with pytest.raises(ValueError, match="form"):
        read_multipart(kind, body)
    head = RequestHead("POST", ATTACH, {"content-type": kind})
    assert (await open_site(open_world()).answer(head, body)).status == 413


def test_parts_are_read_as_browsers_write_them() -> None:
    found = read_multipart(
        'multipart/form-data; boundary="----x"',
        part("text", b"a\r\nb")
        + part("file", b"1\r\n------y", 'q%22%0D"'[:-1])
        + part("empty", b"", "")
        + b"------x--",
    )
    assert found.pairs == (("text", "a\r\nb"),)
    assert [tuple(upload) for upload in found.uploads] == [("file", 'q"\r', b"1\r\n------y")]


def test_many_marks_are_read_in_the_time_of_their_size() -> None:
    began = time.process_time()
    for filler in (b"\r\n--" * 200_000, b'name="' * 150_000, b"\\" * 900_000):
        with pytest.raises(ValueError, match="form"):
            read_multipart(TYPE, b"------x\r\nContent-Disposition: form-data; " + filler)
    for filler in (b" ", b'a="', b"a", b"\\"):
        head = b'------x\r\nContent-Disposition: form-data; name="a"' + (filler * 4_000)[:4_000] + b"\r\n\r\n\r\n"
        assert len(read_multipart(TYPE, head * 240 + b"------x--").pairs) == 240
    assert time.process_time() - began < 2


async def test_a_form_that_is_shown_again_keeps_its_file() -> None:
    world = open_world()
    site = open_site(world)
    sent = [part("_form", b"1"), part("f-issue_id", b""), part("f-file", b"own", "own.txt")]
    shown = (await send(site, *sent)).body.decode()
    assert '<input type="hidden" name="f-file" value="own.txt">' in shown
    again = [part("_form", b"1"), part("f-issue_id", issue_of(world).encode()), part("f-file", b"own.txt")]
    assert (await send(site, *again, part("f-file", b"", ""))).status == 303
    assert [call.action for call in world.calls] == ["put_file", "attach_file", "attach_file"]


def test_worlds_have_files_where_an_action_takes_them() -> None:
    assert files not in compose([tracker]).services
    assert compose([tracker, attachments]).applications == (tracker, attachments, files)
    with pytest.raises(ValueError, match="'attachments' needs 'tracker' before it"):
        compose([attachments, tracker])
    with pytest.raises(UserError, match="files=true needs an action that takes a file"):
        ServiceTasks(app="tracker", files=True).tasks(1, 0)
    with pytest.raises(UserError, match="needs kind=possible"):
        ServiceTasks(app="tracker+attachments", files=True, kind="question").tasks(1, 0)


@pytest.mark.parametrize(
    "given",
    [
        {"name": "a"},
        {"name": "../a", "text": ""},
        {"name": "a.png", "text": "x"},
        {"name": "a", "text": "", "base64": ""},
    ],
)
def test_wrong_files_of_a_task_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="The file"):
        open_world(files=[given])


async def test_generated_files_depend_on_the_seed_alone() -> None:
    one, other, third = open_world(1, given=24), open_world(1, given=24), open_world(2, given=24)
    assert FileStore(one).names == FileStore(other).names != FileStore(third).names
    assert await one.digest() == await other.digest()
    kinds = {
        media_type(found.name, found.content) for name in FileStore(one).names if (found := FileStore(one).named(name))
    }
    assert kinds == {"image/png", "image/svg+xml", "text/csv", "text/html", "text/plain"}
