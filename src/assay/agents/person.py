"""A person who does a task in the browser: the recorder of a person's own browsing.

The page of the attempt is shown to the person as a picture with its controls laid over it, on a page of 127.0.0.1 that
any browser opens. What the person clicks, writes and chooses is done by the browser's tools and recorded as the acts of
any other agent, with the state after each; so a person's recording is judged, replayed, walked and learnt from like one
of a model.

What a step means is completed afterwards, by rules, and marked as such: the evidence `completed` holds a sentence for
each step, made from the tree before it, and names the steps that the recorder did itself. The evidence `person_input`
holds what came from the person: time, place, and whether it was an input event of a browser's user.

Covered: the address holds a random key; other hosts' pages and names are refused; a request body is bounded.
Not covered: other users of this machine who read this process's memory or output.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, runtime_checkable

import msgspec

from assay.environments.browser.page_text import PageView, read_view
from assay.environments.browser.screen import PagePicture
from assay.errors import TaskError, UserError
from assay.http.body_reader import BodyReader, read_body
from assay.http.messages import RequestHead, Response
from assay.http.server import HttpServer, ServerLimits
from assay.records import Evidence, Observation, ToolCall, canonical_bytes

from ._calls import instruction_of
from ._options import read_options
from .interface import Attempt

_LIMITS: Final = ServerLimits(header_s=20.0, body_s=30.0, connections=16)
_MOST_BODY: Final = 1 << 18
_ACTS: Final = frozenset(
    {
        "click",
        "fill",
        "select_option",
        "press",
        "scroll",
        "go_back",
        "go_forward",
        "send_msg_to_user",
        "report_infeasible",
    }
)
"""Tools that the page of the person uses."""
_DONE: Final = "done"
_LAST_S: Final = 0.2
"""Seconds in which the answer to the last act goes out."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_PAGE: Final = Path(__file__).with_suffix(".html")
_logger = logging.getLogger(__name__)


@runtime_checkable
class ShowsPages(Protocol):
    """World in a browser whose pages people can see."""

    async def show_page(self) -> PagePicture:
        """Returns the page as people see it."""


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """Port on 127.0.0.1; 0 lets the system pick one. Attempts at one time need one each."""
    wait_s: Annotated[float, msgspec.Meta(gt=0)] = 3600.0
    """Seconds without an act after which the recording ends."""
    address_file: str = ""
    """File that the address of the person's page is written to; it is logged in any case."""


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An act of the person, as their page sends it."""

    name: str
    arguments: dict[str, Any] = {}
    point: tuple[int, int] | None = None
    """Place in the picture, in pixels."""
    trusted: bool = False
    """True if a browser made the event from its user's input."""
    at_ms: int = 0
    """Milliseconds since the person's page was opened."""


class PersonAgent:
    """Lets a person do the task in a browser. Options: `port`, `wait_s`, `address_file`."""

    name = "person"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the environment is not a site in a browser, `UserError` if the port is taken."""
        if not isinstance(attempt.tools, ShowsPages):
            raise TaskError(
                f"agent {self.name!r} shows pages to a person, and task {attempt.task.id!r} is in an environment "
                f"{attempt.task.environment.kind!r}: take tasks of the families sites or services with interface=pages"
            )
        try:
            listener = socket.create_server(("127.0.0.1", self._options.port))
        except OSError as exc:
            raise UserError(f"port {self._options.port} is not available ({exc.strerror}): choose another one") from exc
        listener.setblocking(False)
        desk = PersonDesk(attempt, attempt.tools)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/{desk.key}/"
        await desk.open()
        async with HttpServer(_DeskApp(desk), _LIMITS) as server:
            await server.listen(listener)
            if self._options.address_file:
                Path(self._options.address_file).write_text(address, encoding="utf-8")
            _logger.warning("the person's page of attempt at %s: %s", attempt.task.id, address)
            await desk.serve(self._options.wait_s)


class PersonDesk:
    """View of an attempt for the person, and their acts. One task serves requests, another one acts."""

    def __init__(self, attempt: Attempt, pages: ShowsPages) -> None:
        self.key = secrets.token_urlsafe(18)
        """Secret part of the address."""
        self._attempt, self._pages = attempt, pages
        self._requests: asyncio.Queue[tuple[_Request, asyncio.Future[bytes]]] = asyncio.Queue()
        self._shown: PagePicture | None = None
        self._number = 0
        self._problem = ""
        self._is_over = False
        self._view: PageView | None = None
        self._inputs: list[dict[str, Any]] = []
        self._completed: list[dict[str, Any]] = []

    async def open(self) -> None:
        """Opens the site, which is the recorder's own act."""
        await self._act("read_page", {}, None)
        self._shown = await self._pages.show_page()

    async def serve(self, wait_s: float) -> None:
        """Carries out what the person does until they are done, the attempt ends, or nothing comes for some time."""
        try:
            while not self._is_over:
                await self._serve_next(wait_s)
        finally:
            self._is_over = True
            while not self._requests.empty():
                self._requests.get_nowait()[1].set_result(self.state())
            self._note_origins()

    async def _serve_next(self, wait_s: float) -> None:
        try:
            request, answer = await asyncio.wait_for(self._requests.get(), wait_s)
        except TimeoutError:
            self._is_over = True
            self._attempt.finish("nothing came from the person for some time")
            return
        try:
            await self._take(request)
        except BaseException:
            self._is_over = True
            raise
        finally:
            answer.set_result(self.state())
        if self._is_over:
            await asyncio.sleep(_LAST_S)

    async def _take(self, request: _Request) -> None:
        if request.name == _DONE:
            self._is_over = True
            self._attempt.finish("the person says that it is done")
            return
        await self._act(request.name, request.arguments, request)
        if self._attempt.ended is not None or request.name == "report_infeasible":
            self._is_over = True
            if self._attempt.ended is None:
                self._attempt.finish("the person says that it cannot be done")
            return
        self._shown = await self._pages.show_page()

    async def _act(self, name: str, arguments: dict[str, Any], request: _Request | None) -> None:
        call = ToolCall(f"p{self._number}", name, canonical_bytes(arguments).decode(), arguments)
        (seen,) = await self._attempt.act([call])
        if request is not None:
            self._inputs.append(
                {"step": self._number, "trusted": request.trusted, "at_ms": request.at_ms, "point": request.point}
            )
        by = "recorder" if request is None else "person"
        text = describe(name, arguments, self._view)
        self._completed.append({"step": self._number, "by": by, "text": text, "failed": seen.error})
        self._number += 1
        self._read(seen)

    def _read(self, seen: Observation) -> None:
        self._problem = seen.content if seen.error else ""
        view = read_view(seen.content)
        if view.parts and not seen.error:
            self._view = view

    def _note_origins(self) -> None:
        """Notes what came from the person, and what was completed from it."""
        self._attempt.note(Evidence("person", "audit", "person_input", {"inputs": self._inputs}))
        data = {"made_by": "rules", "made_from": "the call and the tree before it", "steps": self._completed}
        self._attempt.note(Evidence("completed", "audit", "completed", data))

    # The person's page.

    async def answer(self, method: str, path: str, body: bytes) -> Response:
        """Answers a request for a path after the key."""
        if method == "GET" and path == "":
            return Response(200, _PAGE.read_bytes(), {**_HEADERS, "Content-Type": "text/html; charset=utf-8"})
        if method == "GET" and path == "state":
            return _json(200, self.state())
        if method == "GET" and path == "picture" and self._shown is not None:
            return Response(200, self._shown.image, {**_HEADERS, "Content-Type": "image/webp"})
        if method == "POST" and path == "act" and not self._is_over:
            return await self._answer_act(body)
        return _json(404, b'{"error": "nothing is here"}')

    async def _answer_act(self, body: bytes) -> Response:
        try:
            request = msgspec.json.decode(body, type=_Request)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            return _json(400, msgspec.json.encode({"error": str(exc)}))
        if request.name not in _ACTS and request.name != _DONE:
            return _json(400, b'{"error": "this is not an act of a person"}')
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        await self._requests.put((request, answer))
        return _json(200, await answer)

    def state(self) -> bytes:
        """Returns what the person's page shows, as JSON."""
        shown = self._shown
        return msgspec.json.encode(
            {
                "task": instruction_of(self._attempt.task),
                "number": self._number,
                "is_over": self._is_over,
                "problem": self._problem,
                "title": "" if shown is None else shown.title,
                "address": "" if shown is None else shown.url,
                "width": 0 if shown is None else shown.width,
                "height": 0 if shown is None else shown.height,
                "elements": [] if shown is None else [one._asdict() for one in shown.elements],
            }
        )


def describe(name: str, arguments: dict[str, Any], view: PageView | None) -> str:
    """Returns what an act is, as a sentence made by rules from the tree before it."""
    element = None if view is None else view.element(str(arguments.get("bid", "")))
    there = "" if element is None or view is None else f"the {element.role} “{view.label_of(element) or element.name}”"
    if element is not None and element.role == "radio":
        there = f"“{element.name}” of {there}"
    on = f" on the page “{view.heading}”" if view is not None and view.heading else ""
    sentences = {
        "read_page": "Opens the site.",
        "click": f"Clicks {there}{on}.",
        "fill": f"Writes “{arguments.get('value', '')}” into {there}{on}.",
        "select_option": f"Chooses “{arguments.get('options', '')}” in {there}{on}.",
        "press": f"Presses {arguments.get('key_comb', '')} in {there}{on}.",
        "scroll": f"Scrolls{on}.",
        "go_back": "Goes back to the page before.",
        "go_forward": "Goes forward again.",
    }
    return sentences.get(name, f"Uses {name}.")


def _json(status: int, body: bytes) -> Response:
    return Response(status, body, {**_HEADERS, "Content-Type": "application/json"})


def _json_error(status: int, message: str) -> Response:
    return _json(status, msgspec.json.encode({"error": message}))


class _DeskApp:
    """Implements `App`: lets requests through that know the key and come from this machine's own pages."""

    def __init__(self, desk: PersonDesk) -> None:
        self._desk = desk

    def accept(self, head: RequestHead) -> BodyReader | Response:
        host = head.headers.get("host", "").rpartition(":")[0]
        origin = head.headers.get("origin")
        if host not in ("127.0.0.1", "localhost") or (origin and origin != f"http://{head.headers['host']}"):
            return _json_error(403, "requests of other pages are refused")
        _, key, path = [*head.target.partition("?")[0].split("/", 2), "", ""][:3]
        if not secrets.compare_digest(key.encode(), self._desk.key.encode()):
            return _json_error(404, "nothing is here")
        return read_body(head, lambda body, _: self._desk.answer(head.method, path, body), _MOST_BODY, _json_error)
