"""The server answers who knows the secret, under its own name, with the viewer's files and views and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.viewer import assets
from assay.viewer.server import Viewer, open_viewer
from tests.viewer.made_runs import small_run

pytestmark = pytest.mark.quick


@pytest.fixture
async def viewer(tmp_path: Path) -> AsyncIterator[Viewer]:
    small_run(tmp_path)
    async with open_viewer(tmp_path) as running:
        yield running


async def asked(
    viewer: Viewer, path: str, *, host: str | None = None, method: str = "GET", more: str = ""
) -> tuple[int, str, str]:
    """Status, head and body of an answer to a request whose target is sent exactly so."""
    reader, writer = await asyncio.open_connection("127.0.0.1", viewer.port)
    host = host or f"127.0.0.1:{viewer.port}"
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ", 2)[1]), head, body


async def test_pages_and_views_are_behind_the_secret(viewer: Viewer) -> None:
    for path in ("/", "/data/runs", "/wrong/data/runs", "/pages.js", f"/{viewer.token[:-1]}/"):
        status, _, body = await asked(viewer, path)
        assert status == 404
        assert viewer.token not in body
    assert (await asked(viewer, f"/{viewer.token}/"))[0] == 200
    assert (await asked(viewer, f"/{viewer.token}/data/runs"))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "[::1]"])
async def test_another_host_gets_nothing(viewer: Viewer, host: str) -> None:
    assert (await asked(viewer, f"/{viewer.token}/data/runs", host=host))[0] == 421


async def test_nothing_but_reading(viewer: Viewer) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert (await asked(viewer, f"/{viewer.token}/", method=method))[0] == 405


async def test_every_answer_carries_the_policy(viewer: Viewer) -> None:
    for path in ("", "pages.js", "data/runs", "data/nothing", "nothing"):
        _, head, _ = await asked(viewer, f"/{viewer.token}/{path}")
        assert "Content-Security-Policy: default-src 'none'; script-src 'self';" in head
        assert "unsafe" not in head
        assert "X-Content-Type-Options: nosniff" in head
        assert "Access-Control" not in head


async def test_one_script_and_one_style_sheet_hold_all_parts(viewer: Viewer) -> None:
    folder = Path(assets.__file__).parent / "assets"
    for kind, first in (("js", "core.js"), ("css", "style.css")):
        _, _, body = await asked(viewer, f"/{viewer.token}/pages.{kind}")
        parts = sorted(folder.glob(f"*.{kind}"))
        assert len(parts) > 2
        assert body.startswith(f"/* {first} */")
        assert all(body.count(f"/* {part.name} */\n{part.read_text('utf-8')}") == 1 for part in parts)
    _, _, page = await asked(viewer, f"/{viewer.token}/")
    assert page.count("<script") == page.count("stylesheet") == 1


@pytest.mark.parametrize(
    "path",
    [
        "../pyproject.toml",
        "%2e%2e/views.py",
        "assets/core.js",
        "data/../../x",
        "data/run/../rows",
        "data/run/%2e%2e/rows",
        "data/run/r/rows/../../../x",
        "//etc/passwd",
        "events/..",
        "data/run/missing/rows",
    ],
)
async def test_no_path_leads_out(viewer: Viewer, path: str) -> None:
    status, _, body = await asked(viewer, f"/{viewer.token}/{path}", more="Accept: */*\r\n")
    assert status == 404 or "event: failed" in body
    assert "Traceback" not in body


async def test_a_view_is_sent_once(viewer: Viewer) -> None:
    path = f"/{viewer.token}/data/run/r/rows"
    status, head, _ = await asked(viewer, path)
    tag = next(line for line in head.split("\r\n") if line.startswith("ETag: ")).removeprefix("ETag: ")
    assert status == 200
    assert (await asked(viewer, path, more=f"If-None-Match: {tag}\r\n"))[0] == 304


async def test_two_servers_have_two_secrets(viewer: Viewer) -> None:
    async with open_viewer(viewer.root) as other:
        assert other.token != viewer.token
        assert len(other.token) >= 32


async def test_a_port_that_is_taken_is_told(viewer: Viewer) -> None:
    with pytest.raises(UserError, match="choose another with --port"):
        async with open_viewer(viewer.root, viewer.port):
            pass


async def test_only_loopback_listens(viewer: Viewer) -> None:
    assert viewer.url.startswith("http://127.0.0.1:")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.2", viewer.port)


async def test_the_head_of_a_stream_ends(viewer: Viewer) -> None:
    async with asyncio.timeout(10):
        assert (await asked(viewer, f"/{viewer.token}/events/r", method="HEAD"))[0] == 200
