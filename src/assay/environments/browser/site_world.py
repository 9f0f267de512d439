"""World of services that an agent uses by its web site, in a real browser.

The state, the log of calls and what is judged are those of the services behind the pages (`ServiceWorld`); the browser
adds pages, never state. Each act is a step; the pages that it led to are stored beside it.

Covered: an attempt has an origin, cookies, storage and tabs of its own, and its requests are answered from its own
world in this process. A state keeps what the services hold and the pages (`page_snapshot`): a restored attempt goes on
as if it had never been interrupted, and nothing is replayed. What could not be restored, then or earlier, is in the
facts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from assay.environments.interface import ToolSpec
from assay.environments.services.conversation import is_driven_by_model
from assay.environments.services.files import FileStore
from assay.environments.services.pages.site import CallResult, Site
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.world import ServiceWorld
from assay.errors import EnvironmentFailure, boundary
from assay.http.messages import RequestHead, Response
from assay.records import Isolation, Observation, ToolCall

from .aims import MOST_ACTS, Aims
from .guide import PlanGuide
from .page_observer import Observe
from .page_picture import take_page_picture
from .page_reuse import PageKey, keep_page, take_page
from .page_snapshot import PageSnapshot, restore_pages, take_snapshot
from .picture_options import SITE, PictureOptions
from .random_acts import random_act
from .request_log import RecordedRequest, RequestLog
from .screen import Aim, PagePicture, Screen
from .tab import ActProblem
from .tools import BrowserTools

_TOP: Final = "test"
"""Top-level domain of sites, which no network has (RFC 6761)."""


class SiteOptions(PictureOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of a site and its browser."""

    theme: int | None = None
    """Seed of the looks; None is the world's seed."""
    observe: Observe = "tree"
    """Result of an act: the whole accessibility tree, or the changes since the last one."""
    width: Annotated[int, Meta(ge=320, le=3840)] = 1280
    """Width of the viewport, in pixels."""
    height: Annotated[int, Meta(ge=240, le=2160)] = 800
    """Height of the viewport, in pixels."""
    browser_per_attempt: bool = False
    """True for a browser of its own, so that a renderer that is compromised meets no other attempt."""
    reuse_page: bool = False
    """True to begin in a page that an earlier attempt left, emptied, if one is there."""
    aims: bool = False
    """True to note what acts aimed at, beside what the shortest ways mean (`aims`), and to report progress."""

    def __post_init__(self) -> None:
        if self.reuse_page and self.browser_per_attempt:
            raise ValueError("reuse_page and browser_per_attempt exclude each other")


class _State(msgspec.Struct, frozen=True):
    """A stored state."""

    service: bytes
    results: dict[int, CallResult]
    count: int
    pages: PageSnapshot | None
    """None before the browser was used, and if they could not be kept."""
    was_used: bool = False
    """True once the browser was used."""
    lost: tuple[str, ...] | None = None
    """Parts that earlier states could not restore; None without one."""
    messages: tuple[tuple[str, str], ...] = ()
    held: int = 0
    plan_began: int | None = None
    """Calls that had been made when the reference plan was begun; None before that."""
    requested: int = 0
    requests: tuple[RecordedRequest, ...] = ()
    aims: tuple[Aim, ...] = ()


class SiteWorld:
    """Implements `World`, `KeepsStates` and the advice that the agents `oracle`, `expert` and `random-world` follow.

    With the option `aims` it is also `Episodic`; its rewards decide no outcome.

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
        self._given = parameters, seed
        self.service = ServiceWorld(own, seed)
        if is_driven_by_model(self.service):
            raise ValueError("A person whose words a model chooses is not served by pages: use user=rules")
        theme = seed if self.options.theme is None else self.options.theme
        self.site = Site(self.service, ServedTools(self.service, on_failure=self._fail), theme)
        name = "-".join(service.name for service in self.service.composition.applications)
        self.home = f"http://{name}.{_TOP}/"
        self.on_screen: Callable[[Screen], None] | None = None
        """Called with the page after each act."""
        self.last_screen: Screen | None = None
        """The page after the last act of this object."""
        self.on_answer: Callable[[RequestHead, bytes, Response], None] | None = None
        """Called with each request of the pages, its body, and what the site answered."""
        self._requests = RequestLog()
        self._tools: BrowserTools | None = None
        self._guide: PlanGuide | None = None
        self._failure: Exception | None = None
        self._resumed: _State | None = None
        """State that the browser begins with."""
        self._lost: tuple[str, ...] | None = None
        """Parts that could not be restored; None for an attempt from the start."""
        self._version = ""
        self._isolation: Isolation | None = None
        self.step = 0
        """Index of the current step, set by the recorder."""
        self.terminated = self.truncated = False
        self._aims: Aims | None = None
        self._noted: list[Aim] = []
        self._last_aim: Aim | None = None
        if self.options.aims:
            if not self.service.plan:
                raise ValueError("The option aims of a site is for tasks with a plan")
            self.episode = self._episode

    def _fail(self, failure: Exception) -> None:
        self._failure = failure

    # `World`.

    def specs(self) -> tuple[ToolSpec, ...]:
        return BrowserTools.specs(self.options)

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        tools = await self.open()
        with boundary(EnvironmentFailure, "the browser"):
            observation = await tools.call(name, arguments)
        if self._aims is not None and self._last_aim is not None:
            self._aims.reward(self._last_aim, self.step, error=observation.error)
        if self._failure is not None:
            raise EnvironmentFailure(f"the site is broken: {self._failure}") from self._failure
        return observation

    async def show_page(self) -> PagePicture:
        """Returns the page as people see it, which is no act.

        Raises:
            EnvironmentFailure: The browser is broken, or shows no page.
        """
        tools = await self.open()
        try:
            with boundary(EnvironmentFailure, "the browser"):
                return await take_page_picture(tools.context)
        except ActProblem as exc:
            raise EnvironmentFailure(f"the page cannot be shown: {exc}") from exc

    async def digest(self) -> str | None:
        return await self.service.digest()

    def facts(self) -> dict[str, Any]:
        """Returns the facts of the services, and what the agent said and where it was."""
        messages = [{"kind": kind, "text": text} for kind, text in self._messages]
        isolation = None if self._isolation is None else self._isolation.name
        browser: dict[str, Any] = {
            "version": self._version,
            "isolation": isolation,
            "url": self._url(),
            "messages": messages,
            "requests": self._requests.facts(),
        }
        if self._lost is not None:
            browser["lost"] = list(self._lost)
        if self.options.aims:
            browser["aims"] = [
                {"valid": aim.valid, "right": aim.right, "targets": len(aim.targets)} for aim in self._noted
            ]
        return {**self.service.facts(), "browser": browser}

    async def close(self) -> None:
        try:
            if self._tools is not None and self.options.reuse_page:
                await keep_page(self._tools.context, self._page_key())
            elif self._tools is not None:
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
            tools = await self._open_tools()
            browser = tools.context.browser
            self._version, self._isolation = browser.version, browser.isolation
            tools.observer.on_screen = self._show
            tools.context.files = FileStore(self.service)
            self._tools = tools
            await self._start(tools)
            if self.options.aims:
                self._aims = await asyncio.to_thread(Aims, self._given[0], self.service, self.site)
                tools.before_act = self._judge_aim
        return self._tools

    def _page_key(self) -> PageKey:
        return PageKey(self.home, self.options.width, self.options.height, is_constant=False)

    async def _open_tools(self) -> BrowserTools:
        options = self.options
        opens_home = self._resumed is None or self._resumed.pages is None
        if options.reuse_page and opens_home:
            try:
                kept = await take_page(self._page_key(), self._serve)
            except ActProblem as exc:
                raise EnvironmentFailure(f"the start page could not be opened: {exc}") from exc
            if kept is not None:
                return BrowserTools(kept, self.home, options.observe, pictures=options)
        return await BrowserTools.open(
            self._serve,
            self.home,
            (options.width, options.height),
            options.observe,
            pictures=options,
            is_own=options.browser_per_attempt,
            opens_home=opens_home,
        )

    async def _start(self, tools: BrowserTools) -> None:
        state = self._resumed
        try:
            lost: Sequence[str] = ()
            if state is None or state.pages is None:
                await tools.open_home()
                lost = ("the pages",) if state is not None and state.was_used else ()
            else:
                lost = await restore_pages(tools.context, state.pages)
            if state is not None:
                self._lost = tuple(dict.fromkeys([*(state.lost or ()), *lost]))
                tools.messages = list(state.messages)
                await tools.hold(state.held)
        except ActProblem as exc:
            raise EnvironmentFailure(f"the start page could not be opened: {exc}") from exc
        self._resumed = None

    async def _serve(self, origin: str, head: RequestHead, body: bytes) -> Response | None:
        if f"{origin}/" != self.home:
            return None
        try:
            with boundary(EnvironmentFailure, "the site"):
                response = await self.site.answer(head, body)
        except EnvironmentFailure as exc:
            self._fail(exc)
            return None
        if self._resumed is None:  # pages that are put where they were make no requests of the agent's
            self._requests.add(origin, head, body, response)
        if self.on_answer is not None:
            self.on_answer(head, body, response)
        return response

    async def answer_page(self, head: RequestHead, body: bytes) -> Response:
        """Answers a request of a browser that is not ours. Raises `EnvironmentFailure` if the site is broken."""
        response = await self._serve(self.home.rstrip("/"), head, body)
        if response is None:
            raise EnvironmentFailure(f"the site is broken: {self._failure}")
        return response

    async def _judge_aim(self, act: msgspec.Struct | None) -> None:
        if self._aims is None or self._tools is None:
            return
        self._last_aim = await self._aims.judge(act, self._tools.context.current)
        if len(self._noted) < MOST_ACTS:
            self._noted.append(self._last_aim)

    def _episode(self) -> dict[str, Any]:
        """Returns the rewards of acts, and the progress after each."""
        rewards = [] if self._aims is None else self._aims.rewards
        columns = zip(*rewards, strict=True) if rewards else ((), (), (), ())
        names = ("steps", "rewards", "progress", "errors")
        return {
            "terminated": False,
            "truncated": False,
            "reward": sum(one.reward for one in rewards),
            **{name: list(column) for name, column in zip(names, columns, strict=True)},
        }

    def _show(self, screen: Screen) -> None:
        screen = screen._replace(aim=self._last_aim)
        self.last_screen = screen
        if self.on_screen is not None:
            self.on_screen(screen)

    @property
    def _messages(self) -> Sequence[tuple[str, str]]:
        if self._resumed is not None:
            return self._resumed.messages
        return () if self._tools is None else self._tools.messages

    def _url(self) -> str:
        current = None if self._tools is None else self._tools.context.current
        if current is not None:
            return current.url
        return "" if self._resumed is None or self._resumed.pages is None else self._resumed.pages.url

    # `KeepsStates`.

    def snapshot(self) -> bytes:
        """Returns the state after the last act."""
        began = None if self._guide is None else self._guide.began
        state = _State(self.service.snapshot(), dict(self.site.results), self.site.count, None, plan_began=began)
        state = replace(
            state, requested=self._requests.count, requests=tuple(self._requests.listed), aims=tuple(self._noted)
        )
        if self._resumed is not None:
            former = self._resumed
            state = replace(
                state,
                pages=former.pages,
                was_used=former.was_used,
                lost=former.lost,
                messages=former.messages,
                held=former.held,
            )
        elif self._tools is not None:
            tools = self._tools
            state = replace(
                state,
                pages=take_snapshot(tools.context),
                was_used=True,
                lost=self._lost,
                messages=tuple(tools.messages),
                held=tools.held_modifiers,
            )
        return msgspec.json.encode(state)

    def restore(self, state: bytes) -> None:
        """Restores a state. Raises `ValueError` for other bytes, and once the browser was used."""
        if self._tools is not None:
            raise ValueError("A site whose browser is open cannot be restored: open a new world")
        try:
            stored = msgspec.json.decode(state, type=_State)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            raise ValueError(f"These bytes are not a state of a site: {exc}") from exc
        self.service.restore(stored.service)
        self.site.results, self.site.count = dict(stored.results), stored.count
        self._requests = RequestLog(stored.requested, stored.requests)
        self._noted = list(stored.aims)
        self._resumed = stored
        if stored.plan_began is not None:
            self._guide = PlanGuide(self.service, self.site, stored.plan_began)

    def fork_pages(self) -> SiteWorld:
        """Returns an independent world with the same pages, which opens a context of the browser at its first use and
        takes no pictures; the caller closes it."""
        other = SiteWorld(*self._given)
        other.restore(self.snapshot())
        return other

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
        return random_act(current, draw, FileStore(self.service).names)
