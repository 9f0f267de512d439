"""The coordinator's calls to node agents over HTTP: `POST /v1/poll` and `POST /v1/grant`, JSON bodies, a bearer token.

`GET /metrics` returns the node's metrics in the Prometheus text format, for the same token.

Covered: a request without the token is refused before its body is read; bodies are bounded in size and time, and
decoded into typed structs; a malformed, oversized or late reply counts as a missed poll. An agent that listens beyond
loopback needs a certificate, which its announcement carries: the coordinator accepts that one only.

Not covered: someone who has the token, who can lease attempts and end them; someone who can write to the place, who can
announce an agent and gets the token from the coordinator's calls. Both may run code on the nodes already.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from assay.errors import AssayError, UserError
from assay.http.bearer import BearerToken
from assay.http.body_reader import BodyReader, read_body
from assay.http.client import ClientLimits, HttpClient, ResponseTooLargeError
from assay.http.messages import RequestHead, Response, error_response
from assay.http.metrics import MetricsRegistry
from assay.http.response_writer import ResponseWriter
from assay.http.server import ServerLimits
from assay.http.tls import client_tls, is_loopback, server_tls

from .transport import (
    AgentLink,
    AgentReport,
    BackoffLink,
    GrantReply,
    GrantRequest,
    PollRequest,
    Reply,
    UnreachableAgentError,
    decode_reply,
)

MAX_REQUEST_BYTES = 8 << 20
MAX_REPLY_BYTES = 64 << 20
SERVER_LIMITS = ServerLimits(header_s=10.0, body_s=30.0, connections=64)
CLIENT_LIMITS = ClientLimits(connect_s=10.0, exchange_s=30.0, most_bytes=MAX_REPLY_BYTES)


class NodeListener(NamedTuple):
    """A listening socket and its TLS settings."""

    socket: socket.socket
    tls: ssl.SSLContext | None
    host: str
    port: int


def open_listener(address: str, certificate: Path | None, key: Path | None) -> NodeListener:
    """Listens on `HOST:PORT`; port 0 lets the system pick one.

    Raises:
        UserError: The address is invalid or not available, a file cannot be read, or the address is not a loopback one
            and a certificate is missing.
    """
    host, separator, text = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise UserError(f"--listen {address!r} is not of the form HOST:PORT, such as 127.0.0.1:0")
    tls = server_tls(certificate, key, f"--listen {address}", host)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, int(text)), family=family, backlog=64)
    except OSError as exc:
        raise UserError(f"--listen {address}: {exc.strerror or exc}") from exc
    listener.setblocking(False)
    return NodeListener(listener, tls, host, listener.getsockname()[1])


class AgentApp:
    """The HTTP application of a node agent."""

    def __init__(self, agent: AgentLink, token: str, metrics: MetricsRegistry | None = None) -> None:
        self._token, self._metrics = BearerToken(token), metrics
        self._routes: dict[str, _Route] = {
            "/v1/poll": _Route(msgspec.json.Decoder(PollRequest), agent.poll),
            "/v1/grant": _Route(msgspec.json.Decoder(GrantRequest), agent.grant),
        }

    def accept(self, head: RequestHead) -> BodyReader | Response:
        refusal = self._token.refusal(head, "this node")
        if refusal is not None:
            return refusal
        if head.target == "/metrics" and self._metrics is not None:
            return self._metrics.response() if head.method in ("GET", "HEAD") else error_response(405, "use GET")
        route = self._routes.get(head.target)
        if route is None:
            return error_response(404, "no such resource: POST /v1/poll or /v1/grant, GET /metrics")
        if head.method != "POST":
            return error_response(405, "use POST")
        return read_body(head, route.answer, MAX_REQUEST_BYTES)


class _Route(NamedTuple):
    decoder: msgspec.json.Decoder[Any]
    call: Callable[[Any], Awaitable[AgentReport | GrantReply]]

    async def answer(self, body: bytes, _: ResponseWriter) -> Response:
        """Returns the response to a request."""
        try:
            request = self.decoder.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            return error_response(400, f"invalid request: {exc}")
        try:
            return Response(200, msgspec.json.encode(await self.call(request)), {})
        except AssayError as exc:
            return error_response(500, str(exc)[:500])


class HttpAgentLink(BackoffLink):
    """Calls one agent over HTTP."""

    def __init__(self, name: str, url: str, token: str, certificate: str | None = None) -> None:
        """Creates a link, which connects at its first call.

        Args:
            name: Name of the agent, for messages.
            url: `http://HOST:PORT`, or `https://` with the certificate.
            token: Bearer token of the agent.
            certificate: Its certificate in PEM.

        Raises:
            ValueError: The URL or the certificate is invalid.
        """
        if url.startswith("https:") and certificate is None:
            raise ValueError("an https address without a certificate")
        if url.startswith("http:") and not is_loopback(urlsplit(url).hostname or ""):
            raise ValueError("an address beyond loopback without TLS, which would show the token")
        try:
            tls = None if certificate is None else client_tls(certificate)
        except ssl.SSLError as exc:
            raise ValueError(f"an invalid certificate: {exc}") from exc
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        super().__init__(name)
        self.url, self._token = url, token.encode()
        self._clients = {
            AgentReport: HttpClient(f"{url}/v1/poll", headers, CLIENT_LIMITS, tls),
            GrantReply: HttpClient(f"{url}/v1/grant", headers, CLIENT_LIMITS, tls),
        }

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    async def _exchange(self, request: PollRequest | GrantRequest, kind: type[Reply]) -> Reply:
        try:
            status, body, _ = await self._clients[kind].post(msgspec.json.encode(request), {}).read_response()
        except (OSError, TimeoutError, ResponseTooLargeError) as exc:
            what = type(exc).__name__ if not str(exc) else str(exc)
            raise UnreachableAgentError(f"agent {self.name} at {self.url} cannot be reached: {what}") from exc
        if self._token:
            body = body.replace(self._token, b"[token]")  # a refusal that repeats it is shown
        return decode_reply(f"agent {self.name} at {self.url}", status, body, kind)
