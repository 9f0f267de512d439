"""World of services that an agent uses by its web site, in a real browser.

The state, the log of calls and what is judged are those of the services behind the pages (`ServiceWorld`); the browser
adds pages, never state. Each act is a step; the pages that it led to are stored beside it.

Covered: an attempt has an origin, cookies, storage and tabs of its own, and its requests are answered from its own
world in this process. Not covered: a state keeps what the services hold and the address of the page; forms that were
not sent, scroll positions and further tabs are lost, and the first observation after a restore says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from assay.environments.interface import ToolSpec
from assay.environments.services.conversation import is_driven_by_model
from assay.environments.services.pages.site import CallResult, Site
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.world import ServiceWorld
from assay.errors import EnvironmentFailure, boundary
from assay.http.messages import RequestHead, Response
from assay.records import Isolation, Observation, ToolCall

from .context import BrowserContext
from .guide import PlanGuide
from .pool import browser_pool
from .random_acts import random_act
from .screen import Screen
from .tab import ActProblem
from .tools import BrowserTools, Observe

SITE: Final = "site"
"""Parameter that holds the options of the site and the browser; all others are those of the services."""
_TOP: Final = "test"
"""Top-level domain of sites, which no network has (RFC 6761)."""


class SiteOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a site and its browser."""

    theme: int | None = None
    """Seed of the looks; None is the world's seed."""
    observe: Observe = "tree"
    """Result of an act: the whole accessibility tree, or the changes since the last one."""
    pictures: bool = True
    """True to store a picture of the page after each act."""
    width: Annotated[int, Meta(ge=320, le=3840)] = 1280
    """Width of the viewport, in pixels."""
    height: Annotated[int, Meta(ge=240, le=2160)] = 800
    """Height of the viewport, in pixels."""
    browser_per_attempt: bool = False
    """True for a browser of its own, so that a renderer that is compromised meets no other attempt."""


class _State(msgspec.Struct, frozen=True):
    """A stored state."""

    service: bytes
    url: str
    results: dict[int, CallResult]
    count: int


class SiteWorld:
    """Implements `World`, `KeepsStates` and the advice that the agents `oracle`, `expert` and `random-world` follow.

    Args:
        parameters: Fields of `WorldOptions` of the services, and `site`, the fields of `SiteOptions`.
        seed: Seed of the generators, and of the looks.

    Raises:
        ValueError: A parameter is invalid; the message lists what is allowed.
        PluginLoadError: A service does not exist.
    """

    def __init__(self, parameters: Mapping[str, Any], seed: int) -> None:
        try:
            self.options = msgspec.convert(parameters.get(SITE, {}), SiteOptions)
        except msgspec.ValidationError as exc:
            allowed = ", ".join(SiteOptions.__struct_fields__)
            raise ValueError(f"The option {SITE!r} of a site: {exc}; known options: {allowed}") from exc
        own = {name: value for name, value in parameters.items() if name != SITE}
        self.service = ServiceWorld(own, seed)
        if is_driven_by_model(self.service):
            raise ValueError("A person whose words a model chooses is not served by pages: use user=rules")
        theme = seed if self.options.theme is None else self.options.theme
        self.site = Site(self.service, ServedTools(self.service, on_failure=self._fail), theme)
        name = "-".join(service.name for service in self.service.composition.applications)
        self.home = f"http://{name}.{_TOP}/"
        self.on_screen: Callable[[Screen], None] | None = None
        """Called with the page after each act."""
        self._tools: BrowserTools | None = None
        self._guide: PlanGuide | None = None
        self._failure: Exception | None = None
        self._resume_at = ""
        self._version = ""
        self._isolation: Isolation | None = None

    def _fail(self, failure: Exception) -> None:
        self._failure = failure

    # `World`.

    def specs(self) -> tuple[ToolSpec, ...]:
        return BrowserTools.specs()

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        tools = await self.open()
        with boundary(EnvironmentFailure, "the browser"):
            observation = await tools.call(name, arguments)
        if self._failure is not None:
            raise EnvironmentFailure(f"the site is broken: {self._failure}") from self._failure
        return observation

    async def digest(self) -> str | None:
        return await self.service.digest()

    def facts(self) -> dict[str, Any]:
        """Returns the facts of the services, and what the agent said and where it was."""
        messages = [] if self._tools is None else [{"kind": kind, "text": text} for kind, text in self._tools.messages]
        isolation = None if self._isolation is None else self._isolation.name
        browser = {"version": self._version, "isolation": isolation, "url": self._url(), "messages": messages}
        return {**self.service.facts(), "browser": browser}

    async def close(self) -> None:
        try:
            if self._tools is not None:
                await self._tools.context.close()
        finally:
            await self.service.close()

    # Opening.

    async def open(self) -> BrowserTools:
        """Returns the tools, for which a context of the browser is opened at the first use.

        Raises:
            UserError: No browser or no sandbox for it is here.
            EnvironmentFailure: It could not be started.
        """
        if self._tools is None:
            options = self.options
            lease = await browser_pool().lease(is_own=options.browser_per_attempt)
            self._version, self._isolation = lease.browser.version, lease.browser.isolation
            context = await BrowserContext.open(lease, self._serve, options.width, options.height)
            tools = BrowserTools(context, self.home, options.observe, takes_pictures=options.pictures)
            tools.on_screen = self._show
            self._tools = tools
            await self._start(tools)
        return self._tools

    async def _start(self, tools: BrowserTools) -> None:
        try:
            await tools.open_home()
        except ActProblem as exc:
            raise EnvironmentFailure(f"the start page could not be opened: {exc}") from exc
        if self._resume_at:
            observation = await tools.call("goto", {"url": self._resume_at})
            note = "This page was opened again: forms that were not sent, other tabs and the history are lost."
            tools.context.note(observation.content if observation.error else note)
            self._resume_at = ""

    async def _serve(self, origin: str, head: RequestHead, body: bytes) -> Response | None:
        if f"{origin}/" != self.home:
            return None
        try:
            with boundary(EnvironmentFailure, "the site"):
                return await self.site.answer(head, body)
        except EnvironmentFailure as exc:
            self._fail(exc)
            return None

    def _show(self, screen: Screen) -> None:
        if self.on_screen is not None:
            self.on_screen(screen)

    def _url(self) -> str:
        current = None if self._tools is None else self._tools.context.current
        return self._resume_at if current is None else current.url

    # `KeepsStates`.

    def snapshot(self) -> bytes:
        state = _State(self.service.snapshot(), self._url(), dict(self.site.results), self.site.count)
        return msgspec.json.encode(state)

    def restore(self, state: bytes) -> None:
        """Restores a state. Raises `ValueError` for other bytes, and once the browser was used."""
        if self._tools is not None:
            raise ValueError("A site whose browser is open cannot be restored: open a new world")
        try:
            stored = msgspec.json.decode(state, type=_State)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            raise ValueError(f"These bytes are no state of a site: {exc}") from exc
        self.service.restore(stored.service)
        self.site.results, self.site.count = dict(stored.results), stored.count
        self._resume_at = stored.url if stored.url.startswith(self.home) else ""

    # Advice.

    def advice(self) -> ToolCall | None:
        """Returns the next act of the reference plan, read off the page that is shown; None once it is carried out.

        Raises:
            EnvironmentFailure: The pages do not offer what the plan needs.
        """
        if self._guide is None:
            self._guide = PlanGuide(self.service, self.site)
        current = None if self._tools is None else self._tools.context.current
        return self._guide.next_act(current)

    def any_act(self, draw: random.Random) -> ToolCall | None:
        """Returns a random act that the page that is shown offers."""
        current = None if self._tools is None else self._tools.context.current
        return random_act(current, draw)
