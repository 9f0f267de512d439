"""A page of MiniWoB++ as a world: its own tasks, utterances and raw rewards, on the browser's tools.

The pages are those of the package `miniwob`, which is read and never imported. An episode is begun by the page's own
protocol with the seed of the world; the reward is the raw one, without the discount for time. It is a success if it is
exactly 1: about twenty pages pay a part of it for a part of the work, which is no success here.

Covered: pages are answered from the package's folder alone, and have no network. An episode that has ended takes no
further acts. The reward is that of the episode that was begun, in its tab and document: an episode that is left for
another page, or by beginning another episode, has ended without a reward. Not covered: pages that move by themselves
(twelve of 130) show what their timers made of them.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from assay.environments.browser import computer
from assay.environments.browser.page_reuse import PageKey, keep_page, take_page
from assay.environments.browser.picture_options import PictureOptions
from assay.environments.browser.random_acts import random_act
from assay.environments.browser.screen import Screen
from assay.environments.browser.tab import ActProblem, Tab
from assay.environments.browser.tools import BrowserTools
from assay.environments.interface import ToolSpec
from assay.environments.services.arguments import readable_arguments
from assay.errors import EnvironmentFailure, UserError, boundary
from assay.http.messages import RequestHead, Response
from assay.records import Observation, ToolCall, canonical_bytes, digest_bytes

from .solvers import next_act

HOME: Final = "http://miniwob.test/"
EPISODE_MS: Final = 1_000_000
"""Length of an episode for the page, which ends itself after that; acts are bounded by the limits of an attempt."""
_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_BEGIN: Final = """(() => {
  Math.seedrandom(SEED);
  core.EPISODE_MAX_TIME = LENGTH;
  core.startEpisodeReal();
  for (const id of ['reward-display', 'click-canvas', 'sync-task-cover']) {
    const el = document.getElementById(id);
    if (el) el.setAttribute('aria-hidden', 'true');
  }
  const said = core.getUtterance();
  return typeof said === 'string' ? said : said.utterance;
})()"""
_STATE: Final = "[WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, String(WOB_REWARD_REASON || ''), WOB_EPISODE_ID]"
"""State of the page: is the episode over, its raw reward and reason, and the number of episodes that ended here."""
_LEFT: Final = "the episode was left"


class MiniWobOptions(PictureOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a page of MiniWoB++."""

    page: str
    """Name of the page, such as `click-test`."""
    width: Annotated[int, Meta(ge=160, le=1920)] = 332
    height: Annotated[int, Meta(ge=210, le=1920)] = 214
    reuse_page: bool = False
    """True to begin in a page that an earlier attempt left, emptied and loaded anew, if one is there."""


def find_pages() -> Path:
    """Returns the folder of the package's pages. Raises `UserError` without it."""
    spec = importlib.util.find_spec("miniwob")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    for place in places:
        folder = Path(place) / "html"
        if (folder / "core" / "core.js").is_file():
            return folder
    raise UserError("MiniWoB++ is not installed: `pip install --no-deps miniwob` brings its pages")


def list_pages() -> tuple[str, ...]:
    """Returns the names of all pages. Raises `UserError`."""
    return tuple(sorted(path.stem for path in (find_pages() / "miniwob").glob("*.html")))


class _EpisodeTab(NamedTuple):
    """Where an episode was begun."""

    tab: Tab
    document: int


class MiniWobWorld:
    """Implements `World`, `Episodic` and the advice that the agents `oracle` and `random-world` follow.

    Args:
        parameters: Fields of `MiniWobOptions`.
        seed: Seed of the page's own generator.

    Raises:
        ValueError: A parameter is invalid.
        UserError: The package is not installed.
    """

    def __init__(self, parameters: Mapping[str, Any], seed: int) -> None:
        try:
            self.options = msgspec.convert(dict(parameters), MiniWobOptions)
        except msgspec.ValidationError as exc:
            allowed = ", ".join(MiniWobOptions.__struct_fields__)
            raise ValueError(f"A page of MiniWoB++: {exc}; known options: {allowed}") from exc
        self._folder = find_pages().resolve()
        if (
            not _NAME.fullmatch(self.options.page)
            or not (self._folder / "miniwob" / f"{self.options.page}.html").is_file()
        ):
            raise ValueError(f"MiniWoB++ has no page {self.options.page[:80]!r}")
        self.seed = seed
        self.step = 0
        self.utterance = ""
        self.on_screen: Any = None
        """Called with the page after each act."""
        self.last_screen: Screen | None = None
        """The page after the last act."""
        self._tools: BrowserTools | None = None
        self._begun: _EpisodeTab | None = None
        self._done, self._reward, self._reason = False, 0.0, ""
        self._steps: list[int] = []
        self._rewards: list[float] = []
        self._errors: list[bool] = []
        self._acts: list[str] = []
        self._version = ""

    # `World`.

    def specs(self) -> tuple[ToolSpec, ...]:
        return BrowserTools.specs(self.options)

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        tools, begun = await self.open(), self._begun
        if self._done or begun is None:
            return Observation("The episode has ended; no further act is possible.", error=True)
        with boundary(EnvironmentFailure, "the browser"):
            observation = await tools.call(name, arguments)
            has_ended = await self._look(begun)
        if (arguments.get("action") if name == computer.NAME else name) not in ("read_page", "screenshot"):
            self._steps.append(self.step)
            self._rewards.append(self._reward if has_ended else 0.0)
            self._errors.append(observation.error)
            self._acts.append(canonical_bytes(readable_arguments({name: arguments})[0]).decode())
        if has_ended:
            text = f"{observation.content}\nThe episode has ended with the reward {self._reward:g}."
            return Observation(text, error=observation.error)
        return observation

    async def _look(self, begun: _EpisodeTab) -> bool:
        """Reads the reward of the episode that was begun off its page; returns whether it has ended."""
        tab, document = begun
        found: Any = None
        if not tab.is_closed and tab.document == document:
            found = await _evaluate(tab, _STATE)
        is_read = isinstance(found, list) and len(found) == 4
        if is_read and found[0] is False and found[3] == 0:
            return False
        self._done, self._reward, self._reason = True, 0.0, _LEFT
        if is_read and found[0] is True and found[3] == 1:
            self._reward = float(found[1]) if isinstance(found[1], int | float) else 0.0
            self._reason = str(found[2])[:500]
        return True

    async def digest(self) -> str | None:
        """Returns the digest of page, seed and acts: the page itself has no state that is reported."""
        state = [self.options.page, self.seed, self._acts, self._done, self._reward]
        return digest_bytes(canonical_bytes(state))

    def facts(self) -> dict[str, Any]:
        """Returns the raw reward, and whether it is a success: exactly 1."""
        return {
            "success": self._done and self._reward == 1.0,
            "raw_reward": self._reward,
            "done": self._done,
            "reason": self._reason,
            "utterance": self.utterance,
            "browser": {"version": self._version},
        }

    async def close(self) -> None:
        if self._tools is not None and self.options.reuse_page:
            await keep_page(self._tools.context, self._page_key())
        elif self._tools is not None:
            await self._tools.context.close()

    # `Episodic`.

    @property
    def terminated(self) -> bool:
        return self._done

    @property
    def truncated(self) -> bool:
        return False

    def episode(self) -> dict[str, Any]:
        return {
            "steps": self._steps,
            "rewards": self._rewards,
            "progress": [0.0] * len(self._steps),
            "errors": self._errors,
            "terminated": self._done,
            "truncated": False,
            "reward": sum(self._rewards),
        }

    # Opening.

    async def open(self) -> BrowserTools:
        """Returns the tools; at the first use the page is loaded and its episode begun.

        Raises:
            UserError: No browser or no sandbox for it is here.
            EnvironmentFailure: It could not be started.
        """
        if self._tools is None:
            self._tools = tools = await self._open_page()
            self._version = tools.context.browser.version
            tools.observer.on_screen = self._show
            try:
                begin = _BEGIN.replace("SEED", f"'{self.seed}'").replace("LENGTH", str(EPISODE_MS))
                tab = tools.context.current_tab()
                self._begun = _EpisodeTab(tab, tab.document)
                # The page runs both in this order, so that reading costs no further round trip.
                said, _ = await asyncio.gather(_evaluate(tab, begin), tab.read())
                self.utterance = str(said)
                if tab.is_busy:
                    await tab.settle(frames=0)
                    await tab.read()
            except ActProblem as exc:
                raise EnvironmentFailure(f"the page {self.options.page} could not be started: {exc}") from exc
        return self._tools

    def _page_key(self) -> PageKey:
        options = self.options
        return PageKey(f"{HOME}miniwob/{options.page}.html", options.width, options.height, is_constant=True)

    async def _open_page(self) -> BrowserTools:
        """Returns the tools on the page, whose episode has not begun."""
        options, key = self.options, self._page_key()
        kept = await take_page(key, self._serve) if options.reuse_page else None
        if kept is not None:
            return BrowserTools(kept, key.home, pictures=options)
        size = (key.width, key.height)
        tools = await BrowserTools.open(self._serve, key.home, size, pictures=options)
        try:
            await tools.open_home()
        except ActProblem as exc:
            await tools.context.close()
            raise EnvironmentFailure(f"the page {options.page} could not be loaded: {exc}") from exc
        return tools

    async def _serve(self, origin: str, head: RequestHead, body: bytes) -> Response | None:
        path = unquote(head.target.partition("?")[0], errors="replace").lstrip("/")
        if f"{origin}/" != HOME or head.method != "GET" or body:
            return None
        found = (self._folder / path).resolve()
        kind = _TYPES.get(found.suffix)
        if kind is None or not found.is_relative_to(self._folder) or not found.is_file():
            return Response(404, b"", {})
        return Response(200, found.read_bytes(), {"Content-Type": kind})

    def _show(self, screen: Screen) -> None:
        self.last_screen = screen
        if self.on_screen is not None:
            self.on_screen(screen)

    # Advice.

    def advice(self) -> ToolCall | None:
        """Returns the next act of the script of this page; None once the episode has ended.

        Raises:
            EnvironmentFailure: There is no script for the page, or it is at its end.
        """
        if self._done:
            return None
        tab = None if self._tools is None else self._tools.context.current
        if tab is None or tab.last is None:
            return ToolCall("s0", "read_page", "{}", {})
        act = next_act(self.options.page, self.utterance, tab, len(self._acts))
        if act is None:
            raise EnvironmentFailure(f"the script of the page {self.options.page} ended without a reward")
        name, arguments = act
        return ToolCall(f"s{len(self._acts)}", name, canonical_bytes(arguments).decode(), arguments)

    def any_act(self, draw: random.Random) -> ToolCall | None:
        """Returns a random act that the page offers; None once the episode has ended."""
        return None if self._done else random_act(None if self._tools is None else self._tools.context.current, draw)


async def _evaluate(tab: Tab, expression: str) -> Any:
    """Returns the value of an expression of ours in the page."""
    result = await tab.call("Runtime.evaluate", expression=expression, returnByValue=True)
    if "exceptionDetails" in result:
        raise EnvironmentFailure(f"the page failed: {str(result['exceptionDetails'].get('text'))[:200]}")
    return (result.get("result") or {}).get("value")
