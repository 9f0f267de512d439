"""A tab of an attempt: it loads pages through the attempt's own server, waits until they rest, and finds elements."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from assay.errors import EnvironmentFailure
from assay.http.messages import RequestHead, Response

from .cdp import CdpConnection, CdpError, decode_json
from .screen import Point
from .tree import Counter, Numbering, PageTree, quote, render_lines

SETTLE_S: Final = 90.0
"""Longest wait for a page to rest: long, because what a busy machine does late must not look like another page."""
SCRIPT_S: Final = 60.0
"""Longest wait for the answer of a page."""
MOST_BODY: Final = 1 << 20
"""Bytes of what a page may send with one request."""
MOST_WAITING: Final = 256
"""Requests of a page that may wait for an answer at a time."""
_WORLD: Final = "assay"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ABOUT: Final = "about:blank"

_NOT_AGAIN: Final = Response(
    409,
    b"<!doctype html><title>Not sent again</title><h1>Not sent again</h1>"
    b"<p>This page was the answer to a form. Nothing was sent: go to the page of the form to send it again.</p>",
    {"Content-Type": "text/html; charset=utf-8"},
)
"""Page in place of a form that the history would send a second time."""

Serve = Callable[[str, RequestHead, bytes], Awaitable[Response | None]]
"""Answers a request, given its origin; None refuses it."""


class ActProblem(Exception):
    """An act that could not be done. The message is for the agent."""


class Clipboard:
    """The text that an attempt copied. The browser's own clipboard is that of all attempts, and no page reaches it."""

    def __init__(self) -> None:
        self.text = ""


class TabOwner(Protocol):
    """Owner of a tab."""

    connection: CdpConnection
    clipboard: Clipboard
    serve: Serve
    numbers: Counter
    width: int
    height: int

    def note(self, text: str) -> None:
        """Takes note of something that the agent reads with the next observation."""
        ...


class PageState(NamedTuple):
    """A page as it was read."""

    tree: PageTree
    lines: list[str]


class Served(NamedTuple):
    """The document that a tab was served last."""

    method: str
    response: Response


class Tab:
    """One tab."""

    def __init__(self, owner: TabOwner, target: str, session: str) -> None:
        self.target = target
        self.session = session
        self.url = _ABOUT
        self.document = 0
        """Number of the current document."""
        self.numbering = Numbering(owner.numbers)
        self.last: PageState | None = None
        """The page as it was read last."""
        self.has_crashed = False
        self.is_closed = False
        self.is_in_history = False
        """True while a page of the history is loaded."""
        self.opened_with = ""
        """Address that the tab was opened with and that nobody asked for since; empty for an empty tab."""
        self.awaits_first = False
        """True until the page that the tab was opened with has come."""
        self.served: Served | None = None
        self.content: dict[str, Any] = {}
        """Contents of forms, scroll and more, as `keeper.js` read them last."""
        self.entries: list[tuple[int, str]] = []
        """History as it was noted last: number and address of each entry."""
        self.entry = 0
        """Place of the current entry among them."""
        self.methods: dict[int, str] = {}
        """Method by which each entry was requested, by its number."""
        self.history_of: tuple[int, str] | None = None
        """Document and address at which the history was noted."""
        self.pointer: Point | None = None
        """Where the mouse is."""
        self.is_held = False
        """True while a mouse button is down."""
        self._owner = owner
        self.clipboard = owner.clipboard
        self._connection = owner.connection
        self._world: int | None = None
        self._requests = 0
        self._is_loading = False
        self._is_navigating = False
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # Setting up.

    def listen(self) -> None:
        """Takes in the events of a page."""
        self._connection.listen(self.session, self._on_event)

    async def set_up(self, *, is_waiting: bool) -> None:
        """Takes in a page that was opened. Raises `EnvironmentFailure` or `CdpError`."""
        self.listen()
        send, owner = self._send, self._owner
        pending = [
            send("Fetch.enable", patterns=[{"urlPattern": "*"}]),
            send("Page.enable"),
            send("Runtime.enable"),
            send("Inspector.enable"),
            send("Page.addScriptToEvaluateOnNewDocument", source=_STILLNESS),
            send(
                "Page.addScriptToEvaluateOnNewDocument",
                source=_READER,
                worldName=_WORLD,
                runImmediately=True,
            ),
            send(
                "Emulation.setDeviceMetricsOverride",
                width=owner.width,
                height=owner.height,
                screenWidth=owner.width,
                screenHeight=owner.height,
                deviceScaleFactor=1,
                mobile=False,
            ),
            send("Emulation.setFocusEmulationEnabled", enabled=True),
            send("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}]),
            send("Emulation.setTimezoneOverride", timezoneId="UTC"),
            send("Page.setInterceptFileChooserDialog", enabled=True),
        ]
        if is_waiting:
            pending.append(send("Runtime.runIfWaitingForDebugger"))
        await asyncio.gather(*pending)

    def _send(self, method: str, **params: Any) -> asyncio.Future[dict[str, Any]]:
        return self._connection.send(method, self.session, **params)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Runs a command of the page.

        Raises:
            ActProblem: The page is gone, refuses, or does not answer.
            EnvironmentFailure: The browser is gone.
        """
        if self.is_closed or self.has_crashed:
            raise ActProblem(
                "This tab crashed: close it and open another." if self.has_crashed else "This tab is closed."
            )
        try:
            return await self._connection.call(method, self.session, timeout_s=SCRIPT_S, **params)
        except CdpError as exc:
            raise ActProblem(f"The page cannot do this: {exc}") from exc
        except TimeoutError as exc:
            self._send("Runtime.terminateExecution")  # of a script that does not end
            raise ActProblem("The page does not answer: close this tab and open another.") from exc

    # Events.

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        handler = _HANDLERS.get(method)
        if handler is not None:
            handler(self, params)
            self._changed.set()

    def _on_request(self, params: dict[str, Any]) -> None:
        if self._requests >= MOST_WAITING:
            self._owner.note(f"The page has {MOST_WAITING} requests at a time; more are refused.")
            self._send("Fetch.failRequest", requestId=str(params.get("requestId")), errorReason="BlockedByClient")
            return
        self._requests += 1
        task = asyncio.ensure_future(self._answer(params))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, params: dict[str, Any]) -> None:
        number = str(params.get("requestId"))
        try:
            request = params.get("request")
            known = request if isinstance(request, dict) else {}
            response = await self._respond(str(known.get("url", "")), known)
            is_document = params.get("resourceType") == "Document" and params.get("frameId") == self.target
            if response is not None and is_document and response.status not in _REDIRECTS:
                self.served = Served(str(known.get("method", "GET")), response)
            if response is None:
                await self._send("Fetch.failRequest", requestId=number, errorReason="BlockedByClient")
                return
            headers = {"Content-Length": str(len(response.body)), **response.headers}
            await self._send(
                "Fetch.fulfillRequest",
                requestId=number,
                responseCode=response.status,
                responseHeaders=[{"name": name, "value": value} for name, value in headers.items()],
                body=base64.b64encode(response.body).decode(),
            )
        except (CdpError, EnvironmentFailure):
            return  # the page left before it was answered
        finally:
            self._requests -= 1
            self._changed.set()

    async def _respond(self, url: str, request: dict[str, Any]) -> Response | None:
        try:
            split = urlsplit(url)
            body = b"".join(base64.b64decode(entry.get("bytes", "")) for entry in request.get("postDataEntries") or ())
            headers = {str(name).lower(): str(value) for name, value in (request.get("headers") or {}).items()}
        except (ValueError, TypeError, AttributeError):  # of an address or a form that no client could ask
            return None
        headers["host"] = split.netloc
        if not body and isinstance(request.get("postData"), str):
            body = request["postData"].encode(errors="replace")
        if self.is_in_history and request.get("method") != "GET":
            return _NOT_AGAIN
        if len(body) > MOST_BODY:
            self._owner.note(f"The page sent {len(body)} bytes with one request, which was refused.")
            return None
        target = (split.path or "/") + (f"?{split.query}" if split.query else "")
        head = RequestHead(str(request.get("method", "GET")), target, headers)
        response = await self._owner.serve(f"{split.scheme}://{split.netloc}", head, body)
        if response is None:
            self._owner.note(f"The page asked for {quote(url[:200])}, which is not served here.")
        return response

    def _on_context(self, params: dict[str, Any]) -> None:
        context = params.get("context") or {}
        if context.get("name") == _WORLD and (context.get("auxData") or {}).get("frameId") == self.target:
            self._world = context.get("id")
            self.document += 1

    def _on_destroyed(self, params: dict[str, Any]) -> None:
        if params.get("executionContextId") == self._world:
            self._world = None

    def _on_cleared(self, params: dict[str, Any]) -> None:
        self._world = None

    def _on_navigated(self, params: dict[str, Any]) -> None:
        frame = params.get("frame") or {}
        if frame.get("id") == self.target:
            self.url = str(frame.get("url")) + str(frame.get("urlFragment") or "")
            if self.awaits_first and self.url != _ABOUT:
                self._is_loading = True  # it began to load before anybody listened; that it has loaded is reported
            self.is_in_history = self.awaits_first = False
            self._is_navigating = False

    def _on_moved(self, params: dict[str, Any]) -> None:
        if params.get("frameId") == self.target:
            self.url = str(params.get("url"))
            self._is_navigating = self.is_in_history = False

    def _on_started(self, params: dict[str, Any]) -> None:
        if params.get("frameId") == self.target:
            self._is_loading = True

    def _on_requested(self, params: dict[str, Any]) -> None:
        if params.get("frameId") == self.target and params.get("disposition", "currentTab") == "currentTab":
            self._is_navigating = True

    def _on_stopped(self, params: dict[str, Any]) -> None:
        if params.get("frameId") == self.target:
            self._is_loading = self._is_navigating = self.is_in_history = False

    def _on_cancelled(self, params: dict[str, Any]) -> None:
        if params.get("frameId") == self.target and not self._is_loading:
            self._is_navigating = False

    def _on_dialog(self, params: dict[str, Any]) -> None:
        kind, text = str(params.get("type")), str(params.get("message"))[:300]
        self._owner.note(f"The page showed a dialog ({kind[:20]}), which was dismissed: {quote(text)}")
        self._send("Page.handleJavaScriptDialog", accept=kind == "beforeunload")

    def _on_crash(self, params: dict[str, Any]) -> None:
        self.has_crashed = True

    # Reading.

    async def settle(self, *, frames: int = 2) -> bool:
        """Waits until nothing is loading and frames were drawn; returns False if that took too long."""
        try:
            async with asyncio.timeout(SETTLE_S):
                while True:
                    await self.load()
                    if not frames or (await self._has_drawn(frames) and not self.is_busy):
                        return True
        except TimeoutError:
            self._owner.note(f"The page was still loading after {SETTLE_S:.0f} s.")
            self._send("Page.stopLoading")
            self._is_loading = self._is_navigating = False
            return False

    async def load(self) -> None:
        """Waits until nothing is loading and the page can be read."""
        while self.is_busy:
            self._changed.clear()
            await self._changed.wait()

    async def answer_all(self) -> None:
        """Waits until no request of the page is being answered, so that what an act sent is done before it returns."""
        try:
            async with asyncio.timeout(SCRIPT_S):
                while self._requests and not self._is_gone:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return  # the browser takes no answer

    @property
    def is_busy(self) -> bool:
        """True while the page loads or asks for something."""
        return not self._is_gone and (
            self._requests > 0 or self._is_loading or self._is_navigating or self.awaits_first or self._world is None
        )

    @property
    def _is_gone(self) -> bool:
        return self.has_crashed or self.is_closed

    async def _has_drawn(self, frames: int) -> bool:
        if self._is_gone:
            return True
        try:
            return await self.evaluate("settled", frames) is True
        except ActProblem:
            return self._is_gone  # it crashed meanwhile, or went on to another document

    async def evaluate(self, function: str, *arguments: Any) -> Any:
        """Returns the result of a function of `walker.js`. Raises `ActProblem` as `call`."""
        if self._world is None:
            raise ActProblem("The page is loading.")
        result = await self.call(
            "Runtime.callFunctionOn",
            functionDeclaration=f"(...given) => assayWalker.{function}(...given)",
            executionContextId=self._world,
            arguments=[{"value": argument} for argument in arguments],
            returnByValue=True,
            awaitPromise=True,
        )
        if "exceptionDetails" in result:
            raise ActProblem(f"The page cannot be read: {str(result['exceptionDetails'].get('text'))[:200]}")
        return (result.get("result") or {}).get("value")

    async def read(self, *, with_boxes: bool = False, frames: int = 0) -> PageState:
        """Returns the accessibility tree after some frames. Raises `ActProblem`, also if the page is left meanwhile."""
        document = self.document
        try:
            tree = decode_json(str(await self.evaluate("walk", with_boxes, frames)).encode(), PageTree)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            raise EnvironmentFailure(f"the page was read in an unknown form: {exc}") from exc
        self.url, self.content = tree.url, tree.kept
        self.last = PageState(tree, render_lines(tree, self.numbering.assign(document, tree)))
        return self.last

    def is_open_at(self, address: str) -> bool:
        """Returns True, once, if the tab was opened with an address and shows what was served there. Raises
        `ActProblem` if it could not be loaded."""
        opened_with, self.opened_with = self.opened_with, ""
        if opened_with == address and not self.url.startswith("http"):
            raise ActProblem(f"{address[:200]} could not be loaded.")
        return opened_with == address

    def element(self, number: int) -> int:
        """Returns the number of an element in the current document. Raises `ActProblem` if it is not there."""
        found = self.numbering.elements.get(number)
        if found is None or found.document != self.document:
            raise ActProblem(f"The page has no element [{number}] now. The numbers are those of the last tree.")
        return found.number

    async def screenshot(self) -> bytes:
        """Returns a picture of the viewport as WebP. Raises `ActProblem`."""
        shot = await self.call("Page.captureScreenshot", format="webp", quality=80)
        # The browser holds the drawn pixels, 4 MB, until the view has another size; the page's own size stays.
        self._send("Emulation.setVisibleSize", width=1, height=1)
        return base64.b64decode(shot.get("data", ""))

    def close(self) -> None:
        """Drops the tab's events and unanswered requests."""
        self.is_closed = True
        self._connection.forget(self.session)
        for task in tuple(self._tasks):
            task.cancel()
        self._changed.set()


_HANDLERS: Final[dict[str, Callable[[Tab, dict[str, Any]], None]]] = {
    "Fetch.requestPaused": Tab._on_request,
    "Runtime.executionContextCreated": Tab._on_context,
    "Runtime.executionContextDestroyed": Tab._on_destroyed,
    "Runtime.executionContextsCleared": Tab._on_cleared,
    "Page.frameNavigated": Tab._on_navigated,
    "Page.navigatedWithinDocument": Tab._on_moved,
    "Page.frameStartedLoading": Tab._on_started,
    "Page.frameRequestedNavigation": Tab._on_requested,
    "Page.frameScheduledNavigation": Tab._on_requested,
    "Page.frameStoppedLoading": Tab._on_stopped,
    "Page.frameClearedScheduledNavigation": Tab._on_cancelled,
    "Page.javascriptDialogOpening": Tab._on_dialog,
    "Inspector.targetCrashed": Tab._on_crash,
}


def _script(name: str) -> str:
    return (resources.files(__package__) / "scripts" / name).read_text(encoding="utf-8")


_STILLNESS: Final = _script("stillness.js")
_READER: Final = _script("walker.js") + _script("keeper.js")
"""Script of the isolated world."""
