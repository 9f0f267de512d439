"""Calls to node agents over HTTP: tokens, malformed input, certificates."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import pytest

from assay.errors import UserError
from assay.http.client import HttpClient
from assay.http.messages import RequestHead, Response
from assay.http.metrics import CONTENT_TYPE, MetricsRegistry
from assay.http.server import HttpServer
from assay.rollout.cluster.http_transport import (
    CLIENT_LIMITS,
    MAX_REQUEST_BYTES,
    SERVER_LIMITS,
    AgentApp,
    HttpAgentLink,
    NodeListener,
    open_listener,
)
from assay.rollout.cluster.placement import NodeResources
from assay.rollout.cluster.transport import (
    AgentRefusalError,
    AgentReport,
    GrantReply,
    GrantRequest,
    Lease,
    LeaseRef,
    PollRequest,
    UnreachableAgentError,
)

pytestmark = pytest.mark.quick
TOKEN = "a-token-of-some-length"
LEASE = Lease("r", 1, "t@0", "t", 0, 7, 0, 0, may_retry=True, start_within_s=1.0, lifetime_s=2.0)


class _Agent:
    """Refuses every lease."""

    async def poll(self, request: PollRequest) -> AgentReport:
        resources = NodeResources(("namespaces",), 0, frozenset({"l"}))
        return AgentReport("a", "s", 3, 1, 0, 0, resources, stale=dict(request.epochs))

    async def grant(self, request: GrantRequest) -> GrantReply:
        return GrantReply(tuple(lease.ref for lease in request.leases))


@asynccontextmanager
async def _serve(listener: NodeListener | None = None) -> AsyncIterator[str]:
    listener = listener or open_listener("127.0.0.1:0", None, None)
    metrics = MetricsRegistry()
    metrics.gauge("assay_slots", "Slots.").set(3)
    async with HttpServer(AgentApp(_Agent(), TOKEN, metrics), SERVER_LIMITS) as server:
        await server.listen(listener.socket, listener.tls)
        yield f"{'http' if listener.tls is None else 'https'}://127.0.0.1:{listener.port}"


@asynccontextmanager
async def _link(
    url: str, token: str = TOKEN, certificate: str | None = None, name: str = "a"
) -> AsyncIterator[HttpAgentLink]:
    link = HttpAgentLink(name, url, token, certificate)
    try:
        yield link
    finally:
        await link.close()


async def test_calls_arrive_as_they_were_made() -> None:
    async with _serve() as url, _link(url) as link:
        report = await link.poll(PollRequest({"r": 2}, ("t",), all_leases=True))
        assert (report.capacity, report.stale, report.resources.layers) == (3, {"r": 2}, frozenset({"l"}))
        assert (await link.grant(GrantRequest((LEASE,)))).refused == (LeaseRef("r", "t@0"),)
        assert link.problem is None


@pytest.mark.parametrize("token", ["another-token-of-some-length", "", TOKEN + "x"])
async def test_a_wrong_token_is_refused(token: str) -> None:
    async with _serve() as url, _link(url, token) as link:
        with pytest.raises(AgentRefusalError, match=r"401.*wants its token"):
            await link.poll(PollRequest({}))
        assert link.is_refused


@pytest.mark.parametrize("body", [b"", b"[]", b'{"epochs": {"r": "x"}}', b"[" * 100_000, b"\xff"])
async def test_a_malformed_request_is_answered_with_400(body: bytes) -> None:
    async with _serve() as url:
        client = HttpClient(f"{url}/v1/poll", {"Authorization": f"Bearer {TOKEN}"}, CLIENT_LIMITS)
        async with client.post(body, {}) as response:
            assert (response.status, b"invalid request" in await response.read()) == (400, True)
        await client.close()


async def test_a_long_request_is_not_read() -> None:
    async with _serve() as url:
        client = HttpClient(f"{url}/v1/grant", {"Authorization": f"Bearer {TOKEN}"}, CLIENT_LIMITS)
        async with client.post(b" " * (MAX_REQUEST_BYTES + 1), {}) as response:
            assert response.status == 413
        await client.close()


async def test_an_agent_that_is_gone_is_called_less_often() -> None:
    async with _serve() as url:
        pass
    async with _link(url) as link:
        for _ in range(15):
            with pytest.raises(UnreachableAgentError, match="cannot be reached"):
                await link.poll(PollRequest({}))


def test_an_address_beyond_loopback_needs_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--tls-cert and --tls-key"):
        open_listener("0.0.0.0:0", None, None)
    with pytest.raises(UserError, match="belong together"):
        open_listener("127.0.0.1:0", tmp_path / "cert", None)
    with pytest.raises(UserError, match="not a certificate"):
        open_listener("127.0.0.1:0", tmp_path / "cert", tmp_path / "key")
    for address in ("7070", "host:", ":0", "127.0.0.1:99999"):
        with pytest.raises(UserError, match="HOST:PORT"):
            open_listener(address, None, None)


@contextmanager
def _certificate(folder: Path) -> Iterator[tuple[Path, Path]]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    options = (*kind, "-days", "30", "-subj", "/CN=node")
    subprocess.run([openssl, "req", *options, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    yield certificate, key


async def test_the_announced_certificate_is_accepted_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with _certificate(tmp_path) as (certificate, key), _certificate(tmp_path / "other") as (other, _):
        async with _serve(open_listener("127.0.0.1:0", certificate, key)) as url:
            async with _link(url, certificate=certificate.read_text()) as link:
                assert (await link.poll(PollRequest({}))).capacity == 3
            async with _link(url, certificate=other.read_text()) as link:
                with pytest.raises(UnreachableAgentError, match="CERTIFICATE_VERIFY_FAILED"):
                    await link.poll(PollRequest({}))
    with pytest.raises(ValueError, match="without a certificate"):
        HttpAgentLink("a", "https://127.0.0.1:1", TOKEN)
    with pytest.raises(ValueError, match="show the token"):
        HttpAgentLink("a", "http://10.0.0.1:1", TOKEN)
    with pytest.raises(ValueError, match="invalid certificate"):
        HttpAgentLink("a", "https://127.0.0.1:1", TOKEN, "no PEM")


async def test_an_agent_that_answers_at_the_address_of_another_is_not_taken_for_it() -> None:
    async with _serve() as url, _link(url, name="killed") as link:
        with pytest.raises(UnreachableAgentError, match="agent killed has left: a answers at its address"):
            await link.poll(PollRequest({}))
        assert not link.is_refused


async def test_a_token_that_a_refusal_repeats_is_not_shown() -> None:
    class Repeats:
        def accept(self, head: RequestHead) -> Response:
            return Response(403, str(head.headers).encode(), {})

    listener = open_listener("127.0.0.1:0", None, None)
    async with HttpServer(Repeats(), SERVER_LIMITS) as server:
        await server.listen(listener.socket, None)
        async with _link(f"http://127.0.0.1:{listener.port}") as link:
            with pytest.raises(AgentRefusalError, match=r"403.*Bearer \[token\]"):
                await link.poll(PollRequest({}))
            assert TOKEN not in str(link.problem)


def _signed(folder: Path, name: str) -> tuple[Path, Path]:
    """Returns a certificate that the authority in the folder signed, and its key."""
    certificate, key, request = folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}.csr"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}")
    (folder / "extensions").write_text("basicConstraints=CA:FALSE\n")
    authority = ("-CA", folder / "cert.pem", "-CAkey", folder / "key.pem", "-CAcreateserial")
    options = (*authority, "-days", "30", "-extfile", folder / "extensions")
    for command in (
        ("openssl", "req", *kind, "-keyout", key, "-out", request),
        ("openssl", "x509", "-req", "-in", request, *options, "-out", certificate),
    ):
        subprocess.run(command, check=True, capture_output=True)
    return certificate, key


async def test_what_the_authority_of_an_announced_chain_signed_for_another_is_refused(tmp_path: Path) -> None:
    with _certificate(tmp_path) as (authority, _):
        (certificate, key), another = _signed(tmp_path, "node"), _signed(tmp_path, "another")
        announced = f"{certificate.read_text()}{authority.read_text()}"
        own, foreign = open_listener("127.0.0.1:0", certificate, key), open_listener("127.0.0.1:0", *another)
        async with _serve(own) as url, _link(url, certificate=announced) as link:
            assert (await link.poll(PollRequest({}))).capacity == 3
        async with _serve(foreign) as url, _link(url, certificate=announced) as link:
            with pytest.raises(UnreachableAgentError, match="CERTIFICATE_VERIFY_FAILED"):
                await link.poll(PollRequest({}))


async def test_metrics_are_for_the_token_alone() -> None:
    async with _serve() as url, aiohttp.ClientSession() as client:
        for headers in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"}):
            async with client.get(f"{url}/metrics", headers=headers) as response:
                assert (response.status, "assay_slots" in await response.text()) == (401, False)
        async with client.get(f"{url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}) as response:
            assert (response.status, response.headers["Content-Type"]) == (200, CONTENT_TYPE)
            assert "assay_slots 3\n" in await response.text()
        async with client.post(f"{url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}) as response:
            assert response.status == 405
