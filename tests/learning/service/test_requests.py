"""Who is answered, and what a request may name."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import StoreError, UserError
from assay.http.bearer import load_token
from assay.http.server import HttpServer, ServerLimits
from assay.learning.service import app
from assay.learning.service.app import RolloutApp
from assay.learning.service.config import BatchRequest, require_policies, run_config
from assay.learning.service.ledger import Ledger
from assay.learning.service.policies import PolicyBook
from assay.learning.service.serve import serve_rollouts
from assay.learning.service.service_config import RolloutServiceConfig
from assay.learning.service.worker import BatchWorker, GroupTally
from assay.records import Limits
from assay.settings import Settings
from assay.store import RunStore
from tests.metrics_text import parse_metrics

pytestmark = pytest.mark.quick
TOKEN = "a-token-of-some-length"
CONFIG = RolloutServiceConfig(
    policies={"actor": "local:/weights/{version}"},
    families=("grid",),
    agents=("loop", "vote", "command"),
    waiting=2,
    attempts=100,
)
ASKED: dict[str, Any] = {
    "id": "b1",
    "policy": {"name": "actor", "version": "step-1"},
    "tasks": ["family:grid,n=3"],
    "attempts": 4,
}


class Client:
    """Speaks raw HTTP, so that what is wrong can be sent as well."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def send(self, raw: bytes) -> tuple[int, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(raw)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        decoded = body.decode() if b"text/plain" in head else msgspec.json.decode(body) if body else None
        return int(head.split()[1]), decoded

    async def ask(self, method: str, path: str, body: Any = None, token: str | None = TOKEN) -> tuple[int, Any]:
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        key = f"Authorization: Bearer {token}\r\n" if token is not None else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{key}Content-Length: {len(data)}\r\n\r\n"
        return await self.send(head.encode() + data)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A service that takes batches and works at none."""
    import socket

    ledger = Ledger(tmp_path / "service")
    policies = PolicyBook(tmp_path / "service" / "policies")
    worker = BatchWorker(CONFIG, Settings(tmp_path, tmp_path), ledger, policies)
    served = RolloutApp(CONFIG, ledger, policies, worker, TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        async with HttpServer(served, ServerLimits(5, 5, 20)) as server:
            await server.listen(listener)
            yield Client(listener.getsockname()[1])
            assert served.active_requests == 0


@pytest.mark.parametrize("token", [None, "", "a-token-of-some-lengtH", TOKEN + "x"])
async def test_without_the_token_nothing_is_answered(client: Client, token: str | None) -> None:
    status, told = await client.ask("POST", "/v1/batches", ASKED, token)
    assert status == 401
    assert "token" in told["error"]["message"]
    assert (await client.ask("GET", "/v1/batches"))[1] == {"batches": []}


async def test_the_same_request_again_is_the_same_batch(client: Client) -> None:
    first, again = await client.ask("POST", "/v1/batches", ASKED), await client.ask("POST", "/v1/batches", ASKED)
    assert (first[0], again[0]) == (201, 200)
    assert first[1] == again[1] == {"id": "b1", "state": "waiting", "run": "batch-b1"}
    other = await client.ask("POST", "/v1/batches", ASKED | {"seed": 1})
    assert other[0] == 409


async def test_more_than_may_wait_is_refused(client: Client) -> None:
    statuses = [(await client.ask("POST", "/v1/batches", ASKED | {"id": f"b{n}"}))[0] for n in range(3)]
    assert statuses == [201, 201, 429]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"policy": {"name": "other"}}, "not served here"),
        ({"policy": {"name": "actor"}}, "policy.version"),
        ({"policy": {"name": "actor", "version": "../../etc"}}, "matching regex"),
        ({"policy": {"name": "actor", "version": "a..b"}}, "policy.version"),
        ({"tasks": ["family:maze,n=3"]}, "family 'maze'"),
        ({"tasks": ["family:/tmp/evil.py,n=3"]}, "not served here"),
        ({"tasks": ["/etc"]}, "below one of the service's task folders"),
        ({"tasks": ["../secret"]}, "below one of the service's task folders"),
        ({"tasks": ["family:grid,n=26"]}, "104 attempts"),
        ({"tasks": ["family:grid,n=1_000"]}, "4000 attempts"),
        ({"tasks": ["family:grid,n=1000"], "budget": 5}, "1000 attempts"),
        ({"tasks": ["family:grid,n=1", "family:grid,n=no"]}, "whole number"),
        ({"tasks": []}, "length"),
        ({"agent": "os:system"}, "not served here"),
        ({"credit": {"method": "os:system"}}, "not an installed method"),
        ({"credit": {"masks": [{"name": "/tmp/evil.py"}]}}, "not an installed method"),
        ({"credit": {"method": "gae"}}, "no training row has"),
        ({"credit": {"method": "grpo", "options": {"nope": 1}}}, "has no option 'nope'"),
        ({"credit": {"method": "first-error"}}, "a mask, not an estimator"),
        ({"tasks": ["family:grid,app=/tmp/evil.py:shop"]}, "only for whoever runs the service"),
        ({"tasks": ['family:grid,knobs={"a":["/etc"]}']}, "only for whoever runs the service"),
        ({"tasks": ["family:grid,allow_code=true"]}, "only for whoever runs the service"),
        ({"agent_options": {"skill": "/etc"}}, "skill names a file here"),
        ({"agent_options": {"memory": "notes"}}, "memory names a file here"),
        ({"agent": "vote", "agent_options": {"judge": "/tmp/evil.py:judge"}}, "may name code or a file here"),
        ({"agent": "command", "agent_options": {"command": "ls", "mounts": {"/etc": "/e"}}}, "mounts names a file"),
        ({"allocate": "best"}, "must be one of"),
        ({"id": "../x"}, "matching regex"),
        ({"attempts": 0}, ">= 1"),
        ({"most_lag": 1}, "name the step"),
        ({"step": 1}, "leave policy.version out"),
        ({"step": -1}, ">= 0"),
        ({"step": 1, "policy": {"name": "actor"}, "credit": {"method": "reinforce++"}}, "reinforce++"),
        ({"shell": "ls"}, "unknown field"),
    ],
)
async def test_what_is_not_to_be_had_is_named(client: Client, change: dict[str, Any], said: str) -> None:
    status, told = await client.ask("POST", "/v1/batches", ASKED | change)
    assert status == 400
    assert said in told["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/batches/none", None, 404),
        ("GET", "/", None, 404),
        ("GET", "/v1/batches/../../etc/passwd", None, 404),
        ("PUT", "/v1/batches", None, 405),
        ("GET", "/v1/batches/b1?wait=nan", None, 400),
        ("GET", "/v1/batches/b1?wait=61", None, 400),
        ("GET", "/v1/batches/b1/rows", None, 404),
        ("GET", "/v1/batches/b1/groups?after=1", None, 400),
        ("GET", "/v1/batches/b1/groups?after=-1", None, 400),
        ("GET", "/v1/batches/b1/groups?after=99999999999999999999", None, 400),
        ("GET", "/v1/batches/b1/groups?most=0", None, 400),
        ("GET", "/v1/batches/b1/groups?most=1001", None, 400),
        ("GET", "/v1/batches/b1/groups?wait=61", None, 400),
        ("POST", "/v1/batches/b1/groups", b"{}", 405),
        ("POST", "/v1/batches/b1/acknowledge", b'{"cursor": 5}', 400),
        ("POST", "/v1/batches/b1/acknowledge", b'{"cursor": -1}', 400),
        ("POST", "/v1/batches/b1/acknowledge", b'{"cursor": 1e400}', 400),
        ("POST", "/v1/batches/b1/acknowledge", b"[]", 400),
        ("POST", "/v1/batches/b1/abort", b'{"attempts": []}', 400),
        ("POST", "/v1/batches/b1/abort", b'{"attempts": ["' + b"x" * 501 + b'"]}', 400),
        ("POST", "/v1/batches/none/abort", b'{"attempts": ["t@0"]}', 404),
        ("GET", "/v1/pause", None, 405),
        ("POST", "/v1/pause", b"{}", 400),
        ("GET", "/v1/policies/other", None, 404),
        ("GET", "/v1/policies/../batches", None, 404),
        ("GET", "/v1/policies/actor/versions", None, 405),
        ("POST", "/v1/policies/actor/versions", b"{}", 400),
        ("POST", "/v1/policies/actor/versions", b'{"version": "../x", "step": 0}', 400),
        ("POST", "/v1/policies/actor/versions", b'{"version": "a..b", "step": 0}', 400),
        ("POST", "/v1/policies/actor/versions", b'{"version": "a", "step": -1}', 400),
        ("POST", "/v1/policies/actor/versions", b'{"version": "a", "step": 1e30}', 400),
        ("POST", "/v1/policies/actor/versions", b'{"version": "no-folder", "step": 0}', 400),
        ("DELETE", "/v1/batches/b1", None, 409),
        ("PATCH", "/v1/batches/b1", None, 405),
        ("POST", "/v1/batches/b1/cancel", b"{}", 400),
        ("POST", "/v1/batches", b"{", 400),
        ("POST", "/v1/batches", b"\xff", 400),
        ("POST", "/v1/batches", b"[" * 100_000, 400),
        ("POST", "/v1/batches", b" " * (1 << 20) + b"{}", 413),
    ],
)
async def test_wrong_requests_get_an_answer(
    client: Client, method: str, path: str, body: bytes | None, status: int
) -> None:
    await client.ask("POST", "/v1/batches", ASKED)
    found, told = await client.ask(method, path, body)
    assert found == status
    assert told["error"]["message"]


async def test_attempts_that_are_not_under_way_are_not_aborted(client: Client) -> None:
    await client.ask("POST", "/v1/batches", ASKED)
    assert await client.ask("POST", "/v1/batches/b1/abort", {"attempts": ["t@0"]}) == (200, {"aborted": []})


async def test_a_batch_with_a_step_waits_for_its_version(client: Client) -> None:
    asked = ASKED | {"policy": {"name": "actor"}, "step": 3, "most_lag": 1, "credit": None}
    assert (await client.ask("POST", "/v1/batches", asked))[0] == 201
    status, page = await client.ask("GET", "/v1/batches/b1/groups")
    assert (status, page) == (200, {"next": 0, "end": False, "state": "waiting", "groups": []})
    assert (await client.ask("POST", "/v1/batches/b1/acknowledge", {"cursor": 0}))[1] == {"acknowledged": 0}
    assert (await client.ask("POST", "/v1/batches/b1/cancel"))[1]["state"] == "cancelled"
    assert (await client.ask("GET", "/v1/batches/b1/groups"))[1]["end"]


async def test_a_cancelled_batch_can_be_forgotten(client: Client) -> None:
    await client.ask("POST", "/v1/batches", ASKED)
    assert (await client.ask("POST", "/v1/batches/b1/cancel"))[1]["state"] == "cancelled"
    assert (await client.ask("DELETE", "/v1/batches/b1"))[0] == 204
    assert (await client.ask("GET", "/v1/batches/b1"))[0] == 404


async def test_the_run_of_a_forgotten_batch_is_not_continued_by_another(client: Client, tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "batch-b1", {}):
        pass
    status, refused = await client.ask("POST", "/v1/batches", ASKED)
    assert (status, "give another id" in refused["error"]["message"]) == (409, True)


def test_a_service_that_could_do_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="--policy"):
        require_policies(RolloutServiceConfig(families=("grid",)))
    with pytest.raises(UserError, match="--family"):
        require_policies(RolloutServiceConfig(policies={"a": "local:x"}))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"policies": {"a": "nowhere"}}, "--policy a='nowhere': no such kind of model"),
        ({"families": ("gird",)}, "did you mean grid"),
        ({"agents": ("lop",)}, "did you mean loop"),
        ({"limits": Limits(wall_s=-1)}, "the limit wall_s is -1"),
        ({"families": ("grid,size",)}, "not of the form key=value"),
        ({"families": ("grid", "grid,size=3")}, "--family grid is listed twice"),
    ],
)
def test_unknown_names_of_the_service_are_refused_at_its_start(fields: dict[str, Any], said: str) -> None:
    whole: dict[str, Any] = {"policies": {"a": "local:/weights/{version}"}, "families": ("grid",), **fields}
    with pytest.raises(UserError, match=said):
        require_policies(RolloutServiceConfig(**whole))


def test_a_task_folder_is_taken_below_the_named_ones_alone(tmp_path: Path) -> None:
    (tmp_path / "tasks" / "one").mkdir(parents=True)
    (tmp_path / "tasks" / "out").symlink_to("/etc")
    service = msgspec.structs.replace(CONFIG, task_folders=(str(tmp_path / "tasks"),))
    asked = msgspec.convert(ASKED | {"tasks": ["one"]}, BatchRequest)
    assert run_config(service, asked, "r").tasks == (str(tmp_path / "tasks" / "one"),)
    with pytest.raises(UserError, match=r"task folder .* does not exist"):
        run_config(service, msgspec.structs.replace(asked, tasks=("out",)), "r")


def test_options_that_name_code_or_files_are_those_with_which_the_service_lists_a_family() -> None:
    service = msgspec.structs.replace(CONFIG, families=("services,app=shop.py:shop", "grid"))
    require_policies(service)
    asked = msgspec.convert(ASKED | {"tasks": ["family:services,n=2,level=hard", "family:grid,size=3"]}, BatchRequest)
    found = run_config(service, asked, "r").tasks
    assert found == ("family:services,n=2,level=hard,app=shop.py:shop", "family:grid,size=3")
    asked = msgspec.structs.replace(asked, tasks=("family:services,app=other",))
    with pytest.raises(UserError, match="option app of the family 'services' is set by the service"):
        run_config(service, asked, "r")


def test_an_agent_takes_any_text_in_options_that_name_no_file() -> None:
    asked = msgspec.convert(ASKED | {"agent_options": {"system": "Read /etc/motd: it helps."}}, BatchRequest)
    assert run_config(CONFIG, asked, "r").agent_options == {"system": "Read /etc/motd: it helps."}


async def test_a_batch_that_is_forgotten_while_it_is_acknowledged_stays_forgotten(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.ask("POST", "/v1/batches", ASKED)
    await client.ask("POST", "/v1/batches/b1/cancel")
    reading, going = threading.Event(), threading.Event()

    def read_slowly(*_: object) -> list[object]:
        reading.set()
        assert going.wait(10)
        return []

    monkeypatch.setattr(app, "read_between", read_slowly)
    acknowledging = asyncio.create_task(client.ask("POST", "/v1/batches/b1/acknowledge", {"cursor": 7}))
    await asyncio.to_thread(reading.wait, 10)
    assert (await client.ask("DELETE", "/v1/batches/b1"))[0] == 204
    going.set()
    assert (await acknowledging)[0] == 404
    assert not list((tmp_path / "service").glob("*.json"))


async def test_waits_of_clients_that_have_gone_take_no_place(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await client.ask("POST", "/v1/batches", ASKED)
    monkeypatch.setattr(app, "MAX_CONCURRENT_REQUESTS", 4)
    monkeypatch.setattr(app, "DISCONNECT_S", 0.1)
    request = f"GET /v1/batches/b1/groups?wait=60 HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    writers = [await _send(client.port, request) for _ in range(4)]
    await asyncio.sleep(0.2)
    assert (await client.ask("GET", "/v1/batches"))[0] == 429
    for writer in writers:
        writer.close()
    await asyncio.sleep(1)
    assert (await client.ask("GET", "/v1/batches"))[0] == 200


async def _send(port: int, request: bytes) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await writer.drain()
    return writer


async def test_a_batch_whose_policy_is_not_served_any_more_waits_for_it(tmp_path: Path) -> None:
    ledger, policies = Ledger(tmp_path / "service"), PolicyBook(tmp_path / "service" / "policies")
    batch, _ = ledger.add(msgspec.convert(ASKED, BatchRequest))
    ledger.save(msgspec.structs.replace(batch, state="running"))
    other = msgspec.structs.replace(CONFIG, policies={"other": "local:/weights"})
    worker = BatchWorker(other, Settings(tmp_path, tmp_path), ledger, policies)
    working = asyncio.create_task(worker.run())
    await asyncio.sleep(0.2)
    working.cancel()
    await asyncio.wait({working})
    status = await RolloutApp(other, ledger, policies, worker, TOKEN)._status(batch, {})
    assert msgspec.json.decode(status.body)["state"] == "running"
    assert "policy 'actor' is not served now" in msgspec.json.decode(status.body)["error"]


def _error_of_sqlite(script: str) -> sqlite3.Error | None:
    try:
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(script)
    except sqlite3.Error as exc:
        return exc
    return None


@pytest.mark.parametrize(
    ("cause", "state"),
    [
        (OSError(errno.ENOSPC, "No space left"), "running"),
        (_error_of_sqlite("PRAGMA max_page_count=1; CREATE TABLE a (b)"), "running"),
        (FileNotFoundError(errno.ENOENT, "an erased blob"), "failed"),
        (BlockingIOError(errno.EAGAIN, "another process writes the run"), "failed"),
        (_error_of_sqlite("SELECT * FROM absent"), "failed"),
        (ValueError("damaged"), "failed"),
        (None, "failed"),
    ],
)
async def test_a_disk_that_is_full_ends_the_service_and_not_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: Exception | None, state: str
) -> None:
    ledger, policies = Ledger(tmp_path / "service"), PolicyBook(tmp_path / "service" / "policies")
    ledger.add(msgspec.convert(ASKED, BatchRequest))
    worker = BatchWorker(CONFIG, Settings(tmp_path, tmp_path), ledger, policies)

    async def attempt(*_: object) -> None:
        raise StoreError("writing") from cause

    monkeypatch.setattr(worker, "_attempt", attempt)
    working = asyncio.create_task(worker.run())
    await asyncio.wait({working}, timeout=0.5)
    assert working.done() == (state == "running")
    working.cancel()
    await asyncio.wait({working})
    assert Ledger(tmp_path / "service").all()[0].state == state


async def test_a_cursor_that_is_acknowledged_as_a_batch_begins_again_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, policies = Ledger(tmp_path / "service"), PolicyBook(tmp_path / "service" / "policies")
    batch, _ = ledger.add(msgspec.convert(ASKED, BatchRequest))
    worker = BatchWorker(CONFIG, Settings(tmp_path, tmp_path), ledger, policies)
    monkeypatch.setattr(worker, "_execute", lambda *_: asyncio.sleep(0, {"state": "done"}))
    work = worker._work(batch, GroupTally(batch.request))
    ledger.save(msgspec.structs.replace(batch, acknowledged=7))
    await work
    assert Ledger(tmp_path / "service").all()[0].acknowledged == 7


def test_limits_of_the_service_hold(tmp_path: Path) -> None:
    asked = msgspec.convert(ASKED | {"limits": {"turns": 100_000, "wall_s": 5}}, BatchRequest)
    limits = run_config(CONFIG, asked, "r").limits
    assert (limits.turns, limits.wall_s) == (200, 5)


def test_a_token_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = load_token(path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_token(path) == token
    path.chmod(0o644)
    with pytest.raises(UserError, match="chmod 600"):
        load_token(path)


async def test_two_services_do_not_share_a_store(tmp_path: Path) -> None:
    settings = Settings(tmp_path, tmp_path)
    opened, ended = asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(serve_rollouts(CONFIG, settings, lambda _: opened.set(), ended.wait()))
    await opened.wait()
    second = asyncio.create_task(ended.wait())
    with pytest.raises(StoreError, match="another service"):
        await serve_rollouts(CONFIG, settings, lambda _: None, second)
    ended.set()
    await asyncio.gather(first, second)


async def test_metrics_count_batches_and_answers(client: Client) -> None:
    assert (await client.ask("GET", "/metrics", token=None))[0] == 401
    assert (await client.ask("POST", "/v1/batches", ASKED))[0] == 201
    assert (await client.ask("POST", "/metrics"))[0] == 405
    await client.ask("POST", "/v1/pause")
    status, text = await client.ask("GET", "/metrics")
    found = {(s.name, *s.labels.values()): s.value for f in parse_metrics(text) for s in f.samples}
    assert status == 200
    assert (found["assay_batches", "waiting"], found["assay_batches", "done"]) == (1, 0)
    assert (found["assay_slots",], found["assay_slots_in_use",], found["assay_paused",]) == (16, 0, 1)
    counts = {status: found["assay_responses_total", status] for status in ("200", "201", "401", "405")}
    assert counts == {"200": 1, "201": 1, "401": 1, "405": 1}
