"""Cost of a browser: the size of a tree, memory of a context, a step beside Playwright, an episode beside raw CDP.

The page has a table of 100 rows and a button whose script changes a text. A step clicks it and takes the tree and a
picture. An episode opens a context, loads the page, takes the tree and a picture, clicks, and disposes of the context;
the raw script does it with the fewest commands that it needs, on a browser of its own with the same flags. A reset
opens MiniWoB++'s page `click-test` with another seed and returns the first observation: in a new context here, in a new
browser in BrowserGym; and in the page of the episode before, which was emptied and loaded anew when that one was
closed: what this costs has a row of its own. Both sides are measured by turns.

    python -m benchmarks.browser --peer-python playwright=PATH --peer-python browsergym=PATH
    python -m benchmarks.browser --quick
"""

from __future__ import annotations

import asyncio
import base64
import json
import statistics
import subprocess
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from assay.environments.browser.chromium import Chromium, find_program
from assay.environments.browser.miniwob.world import MiniWobWorld, find_pages
from assay.environments.browser.pool import close_browsers
from assay.environments.browser.screen import Screen
from assay.environments.browser.tools import BrowserTools
from assay.environments.workspace.choose import choose_backend
from assay.errors import UserError
from assay.http.messages import RequestHead, Response
from benchmarks._report import Report, Target, options

HOW = (
    "median wall milliseconds of rounds by turns; bytes of the tree as an agent reads it, and of `getFullAXTree` as "
    "JSON; lines and nodes of both; MB of memory that each of seven further contexts with the page adds (anonymous and "
    "shared; the program's own code is shared by all)"
)
COLUMNS = ("what", "count", "ours", "theirs", "ratio")
HOME = "http://page.test/"
ROWS = "".join(
    f"<tr><td><a href='/o/{n}'>ORD-{n:04}</a><td>{'pending' if n % 3 else 'shipped'}<td>{n * 7}.90<td>Customer {n}</tr>"
    for n in range(100)
)
PAGE = (
    "<!doctype html><title>Orders</title><main><h1>Orders</h1>"
    "<button id=b onclick=\"this.textContent = this.textContent === 'On' ? 'Off' : 'On'\">Off</button>"
    f"<table><caption>Orders: 100 rows</caption><tr><th>Order<th>Status<th>Total<th>Customer</tr>{ROWS}</table></main>"
)
VIEW = {"width": 1280, "height": 800}
PEERS = Path(__file__).parent / "peers"
_CLICKED = (20, 50)
RESET = "a reset of MiniWoB++'s click-test, ms"
_IN_PAGE = 3
"""Episodes in the same page in a round."""
SAME_PAGE = "a reset of click-test in the page before, ms"


class Asked(NamedTuple):
    """How much is measured."""

    rounds: int
    steps: int
    episodes: int


async def serve(_: str, head: RequestHead, __: bytes) -> Response | None:
    """Serves the page."""
    return Response(200, PAGE.encode(), {"Content-Type": "text/html"}) if head.target == "/" else None


async def open_tools() -> BrowserTools:
    """Opens the page in a context of its own."""
    tools = await BrowserTools.open(serve, HOME, (VIEW["width"], VIEW["height"]))
    tools.observer.on_screen = _forget
    await tools.open_home()
    return tools


def _forget(_: Screen) -> None:
    """Takes the picture, as a recorder does."""


async def click(tools: BrowserTools) -> str:
    """Clicks the button; returns the tree."""
    tab = tools.context.current_tab()
    number = next(n for n, element in tab.numbering.elements.items() if element.node.r == "button")
    observation = await tools.call("click", {"bid": str(number)})
    assert not observation.error, observation.content
    return observation.content


async def measure_tree(rounds: int) -> list[dict[str, Any]]:
    """Compares the tree with that of the protocol."""
    tools = await open_tools()
    try:
        tab = tools.context.current_tab()
        await tab.call("Accessibility.enable")
        ours, theirs = list[float](), list[float]()
        for _ in range(rounds):
            began = time.perf_counter()
            state = await tab.read()
            ours.append((time.perf_counter() - began) * 1e3)
            began = time.perf_counter()
            full = await tab.call("Accessibility.getFullAXTree")
            theirs.append((time.perf_counter() - began) * 1e3)
        size, nodes = len(json.dumps(full)), len(full["nodes"])
        text = len("\n".join(state.lines).encode())
        return [
            compared("tree of 100 rows, bytes", rounds, text, size),
            compared("tree of 100 rows, lines beside nodes", rounds, len(state.lines), nodes),
            compared("tree of 100 rows, ms", rounds, statistics.median(ours), statistics.median(theirs)),
        ]
    finally:
        await tools.context.close()


def compared(what: str, count: int, ours: float, theirs: float | None) -> dict[str, Any]:
    """Returns a row."""
    ratio = None if not theirs else round(ours / theirs, 3)
    shown = None if theirs is None else round(theirs, 2)
    return {"what": what, "count": count, "ours": round(ours, 2), "theirs": shown, "ratio": ratio}


async def measure_memory() -> dict[str, Any]:
    """Returns what a further context adds."""
    async with AsyncExitStack() as opened:

        async def add() -> None:
            tools = await open_tools()
            opened.push_async_callback(tools.context.close)
            await click(tools)

        await add()
        await asyncio.sleep(2)
        before = memory_mb()
        for _ in range(7):
            await add()
        await asyncio.sleep(2)
        return compared("a further context, MB", 7, (memory_mb() - before) / 7, None)


def memory_mb() -> float:
    """Returns the proportional set size of the browsers that this process started, without mapped files: how much of
    the program's code is charged to a process depends on what other browsers run here."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it ended
        parents[int(status.parent.name)] = int(fields[1])
    own, total = {Path("/proc/self").resolve().name}, 0.0
    while more := {str(pid) for pid, parent in parents.items() if str(parent) in own} - own:
        own |= more
    for pid in own:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"--remote-debugging-pipe" in command or b"--type=" in command:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
                total += (
                    sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
                    * 1024
                    / 1e6
                )
        except OSError:
            continue
    return total


class RawPage:
    """The fewest commands of the protocol that an episode needs."""

    def __init__(self, browser: Chromium) -> None:
        self.browser = browser
        self.session = ""
        self.is_attached, self.is_loaded = asyncio.Event(), asyncio.Event()

    def attached(self, session: str, target: dict[str, Any], *, is_waiting: bool) -> None:
        self.session = session
        self.browser.connection.listen(session, self._on_event)
        send = self.browser.connection.send
        send("Fetch.enable", session, patterns=[{"urlPattern": "*"}])
        send("Page.enable", session)
        send("Emulation.setDeviceMetricsOverride", session, **VIEW, deviceScaleFactor=1, mobile=False)
        send("Runtime.runIfWaitingForDebugger", session)
        self.is_attached.set()

    def detached(self, session: str) -> None:
        self.browser.connection.forget(session)

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Fetch.requestPaused":
            is_page = params["request"]["url"] == HOME
            body = base64.b64encode(PAGE.encode() if is_page else b"").decode()
            headers = [{"name": "Content-Type", "value": "text/html"}]
            self.browser.connection.send(
                "Fetch.fulfillRequest", self.session, requestId=params["requestId"],
                responseCode=200 if is_page else 404, responseHeaders=headers, body=body,
            )  # fmt: skip
        elif method == "Page.frameStoppedLoading":
            self.is_loaded.set()


async def raw_episode(browser: Chromium) -> float:
    """Returns the milliseconds of an episode by raw commands."""
    began = time.perf_counter()
    made = await browser.call("Target.createBrowserContext", disposeOnDetach=True)
    context = str(made["browserContextId"])
    page = RawPage(browser)
    browser.owners[context] = page
    await browser.call("Target.createTarget", url="about:blank", browserContextId=context)
    await page.is_attached.wait()
    call = browser.connection.call
    await call("Page.navigate", page.session, url=HOME)
    await page.is_loaded.wait()
    await call("Accessibility.getFullAXTree", page.session)
    await call("Page.captureScreenshot", page.session, format="webp", quality=80)
    x, y = _CLICKED
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        await call("Input.dispatchMouseEvent", page.session, type=kind, x=x, y=y, **button)
    browser.owners.pop(context)
    await browser.call("Target.disposeBrowserContext", browserContextId=context)
    return (time.perf_counter() - began) * 1e3


async def our_episode() -> float:
    """Returns the milliseconds of an episode by the tools."""
    began = time.perf_counter()
    tools = await open_tools()
    await click(tools)
    await tools.context.close()
    return (time.perf_counter() - began) * 1e3


async def measure_episodes(rounds: int) -> dict[str, Any]:
    """Compares episodes by turns."""
    backend, _ = await choose_backend()
    browser = await Chromium.start(backend)
    keeper = await open_tools()  # keeps the shared browser open between episodes
    try:
        await our_episode()
        await raw_episode(browser)
        ours, theirs = list[float](), list[float]()
        for _ in range(rounds):
            ours.append(await our_episode())
            theirs.append(await raw_episode(browser))
        return compared("an episode in a new context, ms", rounds, statistics.median(ours), statistics.median(theirs))
    finally:
        await keeper.context.close()
        await browser.close()
        await backend.close()


async def measure_steps(asked: Asked, python: str | None) -> dict[str, Any]:
    """Compares steps with those of Playwright, by turns."""
    tools = await open_tools()
    peer = None
    try:
        if python is not None:
            peer = _start(python, "playwright_peer.py")
            _ask(peer, {"page": PAGE, **VIEW})
        ours, theirs = list[float](), list[float]()
        for _ in range(asked.rounds):
            for _ in range(asked.steps):
                began = time.perf_counter()
                await click(tools)
                ours.append((time.perf_counter() - began) * 1e3)
            if peer is not None:
                theirs += await asyncio.to_thread(_ask, peer, {"steps": asked.steps})
        count = asked.rounds * asked.steps
        median = statistics.median(theirs) if theirs else None
        return compared("a step with tree and picture, ms", count, statistics.median(ours), median)
    finally:
        await tools.context.close()
        if peer is not None:
            peer.communicate()


async def measure_resets(rounds: int, python: str | None) -> list[dict[str, Any]]:
    """Compares resets of a page of MiniWoB++ with those of BrowserGym, by turns: as it is installed, and without the
    waits that it makes by default."""
    keeper, peer = await open_tools(), None
    try:
        if python is not None:
            peer = _start(python, "browsergym_peer.py")
            assert peer.stdout is not None
            if not await asyncio.to_thread(peer.stdout.readline):
                raise SystemExit(f"BrowserGym did not start with {python}: its message is above")
        ours, theirs = list[float](), list[list[float]]()
        kept, emptied = list[float](), list[float]()
        for number in range(rounds):
            world = MiniWobWorld({"page": "click-test"}, number)
            began = time.perf_counter()
            observation = await world.call("read_page", {})
            ours.append((time.perf_counter() - began) * 1e3)
            assert world.utterance
            assert not observation.error
            await world.close()
            for at in range(_IN_PAGE + (number == 0)):
                opened_ms, emptied_ms = await reset_in_page(rounds + number * _IN_PAGE + at)
                if number or at:  # the first one has no page to begin in
                    kept.append(opened_ms)
                    emptied.append(emptied_ms)
            if peer is not None:
                theirs.append(await asyncio.to_thread(_ask, peer, {"resets": 1}))
        medians = [statistics.median(ones) for ones in zip(*theirs, strict=True)] or [None, None]
        return [
            compared(RESET, rounds, statistics.median(ours), medians[0]),
            compared(f"{RESET}, without its waits", rounds, statistics.median(ours), medians[1]),
            compared(SAME_PAGE, len(kept), statistics.median(kept), medians[0]),
            compared("emptying that page after an episode, ms", len(kept), statistics.median(emptied), None),
        ]
    finally:
        await keeper.context.close()
        if peer is not None:
            peer.communicate()


async def reset_in_page(seed: int) -> tuple[float, float]:
    """Returns the milliseconds until an episode has begun, with its tree, and those of emptying its page."""
    world = MiniWobWorld({"page": "click-test", "reuse_page": True}, seed)
    began = time.perf_counter()
    tools = await world.open()
    opened = time.perf_counter()
    assert tools.context.current_tab().last is not None
    assert world.utterance
    await world.call("click", {"bid": "1"})
    acted = time.perf_counter()
    await world.close()
    return (opened - began) * 1e3, (time.perf_counter() - acted) * 1e3


def _start(python: str, program: str) -> subprocess.Popen[str]:
    argv = [python, str(PEERS / program), find_program()]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ask(peer: subprocess.Popen[str], message: dict[str, Any]) -> list[float]:
    assert peer.stdin is not None
    assert peer.stdout is not None
    peer.stdin.write(json.dumps(message) + "\n")
    peer.stdin.flush()
    found: list[float] = json.loads(peer.stdout.readline())
    return found


async def measure(asked: Asked, peers: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns all rows; that of resets only where the pages of MiniWoB++ are installed."""
    try:
        rows = [
            *await measure_tree(asked.rounds),
            await measure_memory(),
            await measure_steps(asked, peers.get("playwright") or peers.get("")),
            await measure_episodes(asked.episodes),
        ]
        with suppress(UserError):
            find_pages()
            rows += await measure_resets(asked.rounds, peers.get("browsergym"))
        return rows
    finally:
        await close_browsers()


def main() -> None:
    """Measures and reports."""
    given = options("browser", __doc__ or "").parse_args()
    named = dict(pair.rpartition("=")[::2] for pair in given.peer_python)
    asked = Asked(2, 3, 3) if given.quick else Asked(10, 10, 30)
    missing: dict[str, str] = {}
    try:
        find_program()
        rows = asyncio.run(measure(asked, named))
    except UserError as exc:
        rows, missing = [], {"everything": str(exc)}
    if not (named.get("playwright") or named.get("")):
        missing["Playwright"] = "no interpreter was given: --peer-python playwright=PATH"
    if "browsergym" not in named:
        missing["BrowserGym"] = "no interpreter was given: --peer-python browsergym=PATH"
    by_name = {row["what"]: row for row in rows}

    def target(what: str, label: str, unit: str, at_most: float, field: str = "ratio") -> Target:
        return Target(label, unit, at_most, by_name.get(what, {}).get(field))

    targets = [
        target("tree of 100 rows, bytes", "bytes of a tree beside CDP's", "times", 0.2),
        target("tree of 100 rows, lines beside nodes", "lines of a tree beside CDP's nodes", "times", 0.2),
        target("a further context, MB", "memory of a context", "MB", 20, "ours"),
        target("a step with tree and picture, ms", "a step beside Playwright", "times", 1.3),
        target("an episode in a new context, ms", "an episode beside raw CDP", "times", 1.15),
        target(RESET, "a reset in a new context beside BrowserGym's", "times", 0.1),
        target(SAME_PAGE, "a reset in the same page beside BrowserGym's", "times", 0.1),
        target(SAME_PAGE, "a reset in the same page", "ms", 5, "ours"),
    ]
    Report("browser", HOW, rows, targets, missing).finish(COLUMNS, given.into)


if __name__ == "__main__":
    main()
