"""The viewer on what is large: a run of 20,000 attempts, and an attempt of 5,000 steps and 50 MB.

    python -m benchmarks.viewer [--quick] [--peer-python inspect=PATH]

A real Chromium opens the pages of a server that runs as a process of its own. Times are those until what was asked for
is on the page; the first one of each is also the first that the server ever answers. Beside it: Inspect's viewer on
logs that say the same (an `.eval` with as many samples, and one with a sample of as many messages).
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Verdict,
    VerdictAdded,
)
from assay.store import RunStore, seal
from benchmarks._report import Report, Target, options

ATTEMPTS, STEPS, STEP_BYTES = 20_000, 5_000, 10_000
QUICK_ATTEMPTS, QUICK_STEPS = 400, 100
OURS, SEALED, INSPECT = "Assay, live run", "Assay, sealed run", "Inspect's viewer"
OPENED = 3
WAIT_S = 120.0
PEER = Path(__file__).parent / "peers" / "inspect_view_logs.py"
NAMES = ("chromium", "chromium-browser", "google-chrome")
SEEN = """([selector, text, wait]) => new Promise((done, failed) => {
  const began = performance.now();
  const look = () => {
    const found = [...document.querySelectorAll(selector)];
    if (found.some((each) => each.textContent.includes(text))) done(performance.now());
    else if (performance.now() - began > wait) failed(new Error(`not on the page: ${text}`));
    else requestAnimationFrame(look);
  };
  look();
})"""


class Size(NamedTuple):
    """How large."""

    attempts: int
    steps: int

    @property
    def failed(self) -> int:
        """Every third attempt fails."""
        return len(range(0, self.attempts, 3))


class Ways(NamedTuple):
    """How a contender's pages are asked for: addresses, and what is on the page when it is there."""

    pid: int
    run: str
    long: str
    row: tuple[str, str]
    """A selector and a text."""
    first_step: tuple[str, str]
    pages: Mapping[str, tuple[str, tuple[str, str]]] = MappingProxyType({})
    """Further pages: key of the figure to address, selector and text."""


def make_store(root: Path, size: Size) -> None:
    """The runs `many` and `long`, live."""
    draw = random.Random(0)
    with RunStore.create(root, "many", {"config": {"agent": "loop"}}) as store:
        for start in range(0, size.attempts, 500):
            store.append_all([_attempt("many", n, 2, 200, draw) for n in range(start, min(start + 500, size.attempts))])
    with RunStore.create(root, "long", {"config": {"agent": "loop"}}) as store:
        chain, bodies = _attempt("long", 0, size.steps, STEP_BYTES, draw)
        for start in range(0, len(bodies), 500):
            store.append(chain, bodies[start : start + 500])


def _attempt(run: str, number: int, steps: int, size: int, draw: random.Random) -> tuple[str, list[Body]]:
    task = f"task-{number // 20:04d}"
    name = f"{task}-{number % 20:02d}"
    good = number % 3 > 0
    bodies: list[Body] = [AttemptStarted(run, name, task, task, "loop", "m/m", number, number % 20, at=float(number))]
    for step in range(steps):
        call = ToolCall(f"call_{step}", "bash", f'{{"command": "sed -n {step}p notes.txt"}}')
        lines = [f"part {step}", *(draw.randbytes(38).hex() for _ in range(size // 77 + 1))]
        seen = Observation("\n".join(lines)[:size], call.id, 0)
        bodies.append(StepAdded(Step(step, "agent", f"I read part {step}.", None, (call,), (seen,))))
    bodies.append(VerdictAdded(Verdict("tests", "outcome", "pass" if good else "fail", float(good), "said")))
    metrics = {"prompt_tokens": 900.0, "completion_tokens": 80.0, "wall_s": 4.0, "cost_usd": 0.01}
    bodies.append(AttemptEnded("agent said so", at=number + 4.0, metrics=metrics))
    return f"{name}.0", bodies


@contextmanager
def assay_server(root: Path, size: Size) -> Iterator[Ways]:
    """`assay view` on a store."""
    program = "from assay.cli import main; main()"
    argv = [sys.executable, "-c", program, "view", "--no-open", "--store", str(root)]
    with _started(argv) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        first = "task-0000"
        yield Ways(
            process.pid,
            f"{address}#/run/many",
            f"{address}#/run/long/attempt/{first}-00.0",
            ("[role=grid] [role=gridcell]", first),
            ("main", "I read part 1."),
            {
                "failures_ms": (f"{address}#/run/many/failures", (".clusters strong", "said")),
                "task_ms": (f"{address}#/task/{first}", (".task-run h2", "many")),
                "search_ms": (f"{address}#/search?q=read+part+{size.steps - 1}.", (".hits-head h2", "long")),
                "overlay_ms": (f"{address}#/overlay/many+long", (".overlaid li", "many")),
            },
        )


@contextmanager
def inspect_server(python: str, folder: Path, size: Size) -> Iterator[Ways]:
    """Inspect's viewer on logs of the same content."""
    made = [python, str(PEER), str(folder), str(size.attempts), str(size.steps), str(STEP_BYTES)]
    subprocess.run(made, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(python).parent / "inspect"
    argv = [str(program), "view", "start", "--log-dir", str(folder), "--port", str(port)]
    with _started(argv, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        while "Running on" not in process.stdout.readline():
            if process.poll() is not None:
                raise OSError("its server ended at once")
        many, long = sorted(path.name for path in folder.glob("*.eval"))
        address = f"http://127.0.0.1:{port}/#/logs/"
        yield Ways(
            process.pid,
            address + many,
            f"{address}{long}/samples/sample/task-0000-00/1",
            ("body", "task-0000-00"),
            ("body", "I read part 1."),
        )


@contextmanager
def _started(argv: Sequence[str], env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


class Visit:
    """One page in a context of its own, and what it took from the network."""

    def __init__(self, browser: Any) -> None:
        self._context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.page = self._context.new_page()
        self.page.set_default_timeout(WAIT_S * 1000)
        self._wire = self._context.new_cdp_session(self.page)
        self._wire.send("Network.enable")
        self.loaded = 0.0
        self._wire.on("Network.loadingFinished", self._finished)

    def _finished(self, told: dict[str, Any]) -> None:
        self.loaded += told["encodedDataLength"]

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()

    def open(self, address: str, there: tuple[str, str]) -> float:
        """Milliseconds until what was asked for is there."""
        began = time.perf_counter()
        self.page.goto(address, wait_until="commit")
        self.page.evaluate(SEEN, [*there, WAIT_S * 1000])
        return (time.perf_counter() - began) * 1e3

    def until(self, there: tuple[str, str]) -> float:
        """Milliseconds of the page's clock from `mark` until that is there."""
        return float(self.page.evaluate(SEEN, [*there, WAIT_S * 1000])) - self._began

    def mark(self) -> None:
        """Now it begins."""
        self._began = float(self.page.evaluate("performance.now()"))

    def heap_mib(self) -> float:
        """What the page's scripts hold, after a collection."""
        self._wire.send("HeapProfiler.collectGarbage")
        return float(self.page.evaluate("performance.memory.usedJSHeapSize")) / (1 << 20)


def measured(browser: Any, name: str, ways: Ways, size: Size) -> dict[str, Any]:
    """One row."""
    row: dict[str, Any] = {"what": name}
    opened = []
    for _ in range(OPENED):
        with Visit(browser) as visit:
            opened.append(visit.open(ways.run, ways.row))
            row["filter_ms"] = _filtered(visit, name, size)
    row |= {"open_first_ms": opened[0], "open_ms": statistics.median(opened[1:])}
    opened = []
    for _ in range(OPENED):
        with Visit(browser) as visit:
            opened.append(visit.open(ways.long, ways.first_step))
            row["long_loaded_mb"] = visit.loaded / 1e6
            row["long_heap_mib"] = visit.heap_mib()
            if name != INSPECT:
                row["long_end_ms"] = _to_the_end(visit, ways, size)
    row |= {"long_first_ms": opened[0], "long_ms": statistics.median(opened[1:])}
    for key, page in ways.pages.items():
        opened = []
        for _ in range(OPENED):
            with Visit(browser) as visit:
                opened.append(visit.open(*page))
        row[key] = max(opened)
    return row | {"server_mib": _peak_mib(ways.pid)}


def _filtered(visit: Visit, name: str, size: Size) -> float:
    """From the act to what is left on the page: the failed attempts."""
    page = visit.page
    if name == INSPECT:
        page.locator(".cm-content").click()
        visit.mark()
        page.keyboard.insert_text('tests == "I"')
        return visit.until(("body", f"{size.failed} rows"))
    button = page.locator(".cards button", has_text="fail").first
    visit.mark()
    button.evaluate("(each) => each.click()")
    return visit.until(("[role=status]", f"{size.failed:,} of {size.attempts:,} attempts"))


def _to_the_end(visit: Visit, ways: Ways, size: Size) -> float:
    visit.mark()
    visit.page.evaluate("(to) => { location.hash = to; }", f"{ways.long.partition('#')[2]}/step/{size.steps - 1}")
    return visit.until(("main article", f"I read part {size.steps - 1}."))


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measure(size: Size, peer: str | None, program: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """All rows, and what could not be measured."""
    from playwright.sync_api import Error, sync_playwright

    rows, missing = [], {}
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as scratch, sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info"]
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        root, logs = Path(scratch) / "store", Path(scratch) / "logs"
        logs.mkdir()
        make_store(root, size)
        with assay_server(root, size) as ways:
            rows.append(measured(browser, OURS, ways, size))
        for run in ("many", "long"):
            seal(root, run)
        with assay_server(root, size) as ways:
            rows.append(measured(browser, SEALED, ways, size))
        if peer is None:
            missing[INSPECT] = "no interpreter was named: --peer-python inspect=PATH"
        else:
            try:
                with inspect_server(peer, logs, size) as ways:
                    rows.append(measured(browser, INSPECT, ways, size))
            except (Error, OSError, subprocess.SubprocessError) as exc:
                missing[INSPECT] = f"{type(exc).__name__}: {str(exc)[:300]}"
        browser.close()
    return rows, missing


def chromium() -> str | None:
    """The program of a browser; None where there is none."""
    return os.environ.get("ASSAY_CHROMIUM") or next((found for n in NAMES if (found := shutil.which(n))), None)


def targets_of(rows: Sequence[dict[str, Any]], *, counts: bool) -> list[Target]:
    """The promises, over the live and the sealed run."""

    def worst(*keys: str) -> float | None:
        ours = [row[key] for row in rows if row["what"] != INSPECT for key in keys]
        return max(ours) if counts and ours else None

    return [
        Target(f"a run of {ATTEMPTS:,} attempts opens", "ms", 1000, worst("open_first_ms", "open_ms")),
        Target(f"{ATTEMPTS:,} attempts are filtered", "ms", 200, worst("filter_ms")),
        Target(f"an attempt of {STEPS:,} steps and 50 MB opens", "ms", 1000, worst("long_first_ms", "long_ms")),
        Target("a run's failures, a task, two runs overlaid: the slowest", "ms", 1000, worst(*PAGES[:3])),
        Target("a search through the steps of both runs", "ms", 2000, worst(PAGES[3])),
        Target("peak memory of the viewer's server", "MiB", 400, worst("server_mib")),
    ]


PAGES = ("failures_ms", "task_ms", "overlay_ms", "search_ms")
COLUMNS = (
    "what",
    "open_first_ms",
    "open_ms",
    "filter_ms",
    "long_first_ms",
    "long_ms",
    "long_end_ms",
    "long_loaded_mb",
    "long_heap_mib",
    *PAGES,
    "server_mib",
)


def main(argv: Sequence[str] | None = None) -> None:
    """See the module."""
    given = options("viewer", __doc__ or "").parse_args(argv)
    size = Size(QUICK_ATTEMPTS, QUICK_STEPS) if given.quick else Size(ATTEMPTS, STEPS)
    named = [value.rpartition("=") for value in given.peer_python]
    peer = next((path for name, _, path in reversed(named) if name in ("", "inspect")), None)
    browser = chromium()
    if browser is None:
        rows: list[dict[str, Any]] = []
        missing = {"everything": "no Chromium is installed (scripts/system-packages.sh)"}
    else:
        rows, missing = measure(size, peer, browser)
    how = (
        f"A run of {size.attempts:,} attempts and an attempt of {size.steps:,} steps, "
        f"{size.steps * STEP_BYTES / 1e6:g} MB, opened in Chromium; milliseconds until it is on the page."
    )
    rows = [{key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()} for row in rows]
    Report("viewer", how, rows, targets_of(rows, counts=not given.quick), missing).finish(COLUMNS, given.into)


if __name__ == "__main__":
    main()
