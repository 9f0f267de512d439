"""One plan through each transport leads to one state, and a client reads the same results."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from assay.environments.interface import Backend, Workspace, WorkspaceSpec
from assay.environments.services.command import ADDRESS, command_mount, command_path
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.serving import serve_http
from assay.environments.services.world import ServiceWorld
from assay.environments.workspace.session import PATH
from assay.synthesis.services.family import ServiceTasks

from .board import open_board
from .shop import PLAN, open_world, planned
from .test_serving import answer

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "src" / "assay" / "environments" / "payload" / "service.py"
Text = tuple[str, bool]
sdk = pytest.mark.skipif(find_spec("mcp") is None, reason="the MCP SDK is not installed: pip install mcp")


def expected() -> list[Text]:
    return [(text, text.startswith("Error")) for text in planned()[0]]


@asynccontextmanager
async def served(world: ServiceWorld | None = None) -> AsyncIterator[tuple[ServiceWorld, str]]:
    world, listener = world or open_world(), socket.create_server(("127.0.0.1", 0))
    async with serve_http(ServedTools(world), listener):
        yield world, f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_http_leads_to_the_state_of_calls_in_process() -> None:
    async with served() as (world, url):
        port = int(url.rpartition(":")[2])
        found = []
        for name, arguments in PLAN:
            status, body = await answer(port, "POST", f"/actions/{quote(name)}", json.dumps(arguments).encode())
            found.append((body["message"], True) if status != 200 else (plain(body), False))
    assert found == expected()
    assert world.database.digest() == planned()[1]


def plain(body: Any) -> str:
    """Returns a result as the text that an agent reads in process."""
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))


async def run_plan_with_sdk(target: Any, mode: str, plan: Sequence[tuple[str, dict[str, Any]]] = PLAN) -> list[Text]:
    """Runs a plan by the official client; `target` is a URL or the parameters of a process."""
    from mcp import Client

    async with Client(target, mode=mode) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names >= {name for name, _ in plan}
        results = [await client.call_tool(name, arguments) for name, arguments in plan]
    return [(result.content[0].text, bool(result.is_error)) for result in results]


@pytest.mark.long
@sdk
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_mcp_over_http_leads_to_the_same_state(mode: str) -> None:
    async with served() as (world, url):
        assert await run_plan_with_sdk(f"{url}/mcp", mode) == expected()
    assert world.database.digest() == planned()[1]


@sdk
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_mcp_over_a_pipe_leads_to_the_same_state(mode: str) -> None:
    """The command relays a pipe to the service, for programs that know no other transport."""
    from mcp import StdioServerParameters

    async with served() as (world, url):
        target = StdioServerParameters(command=sys.executable, args=[str(PROGRAM), "mcp"], env={ADDRESS: url})
        assert await run_plan_with_sdk(target, mode) == expected()
    assert world.database.digest() == planned()[1]


@sdk
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_disturbed_world_is_the_same_over_mcp(mode: str) -> None:
    """The official client meets the failures, names, pages and corrupted results that calls in process meet."""
    spec = "failures:rate=0.5:in_row=1+corrupted:rate=1.0+pages:size=2+renamed:rate=1.0"
    alone, world = open_board(spec), open_board(spec)
    plan = [(call.name, call.parsed or {}) for call in alone.oracle()]
    seen = [alone.act(name, arguments) for name, arguments in plan]
    assert any(observation.error for observation in seen)
    listener = socket.create_server(("127.0.0.1", 0))
    async with serve_http(ServedTools(world), listener):
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        found = await run_plan_with_sdk(url, mode, plan)
    assert found == [(observation.content, observation.error) for observation in seen]
    assert world.facts() == alone.facts()
    undisturbed = open_board()
    for call in undisturbed.oracle():
        undisturbed.act(call.name, call.parsed or {})
    assert world.facts()["changes"] == undisturbed.facts()["changes"] != []


async def run_lines(parameters: str, lines: list[bytes]) -> tuple[int, list[Any], str]:
    """Runs the server of a world on a pipe; returns its exit code, answers and messages."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "assay.environments.services", parameters, "--seed", "1"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
    )
    out, err = await process.communicate(b"\n".join(lines) + b"\n")
    assert process.returncode is not None
    return process.returncode, [json.loads(line) for line in out.splitlines()], err.decode()


def as_call(number: int, name: str, arguments: dict[str, Any]) -> bytes:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


async def test_server_on_a_pipe_runs_the_plan() -> None:
    lines = [as_call(number, name, arguments) for number, (name, arguments) in enumerate(PLAN)]
    parameters = json.dumps({"services": ["tests.environments.services.shop:shop"]})
    code, answers, _ = await run_lines(parameters, lines)
    results = [one["result"] for one in answers]
    assert code == 0
    assert [(result["content"][0]["text"], result["isError"]) for result in results] == expected()


@pytest.mark.parametrize("parameters", ["{", '{"services": ["nowhere:shop"]}', '{"service": []}', "[]"])
async def test_server_of_a_wrong_world_says_why(parameters: str) -> None:
    code, answers, message = await run_lines(parameters, [])
    assert (code, answers) == (2, [])
    assert message.startswith("The world cannot be opened: ")
    assert "Traceback" not in message


@asynccontextmanager
async def sandboxed(
    backend: Backend, world: ServiceWorld | None = None
) -> AsyncIterator[tuple[ServiceWorld, Workspace]]:
    """A sandbox in which a world is served; default: a small shop."""
    with command_mount() as mount:
        workspace = await backend.open(WorkspaceSpec(mounts=(mount,), env={"PATH": command_path(PATH)}))
        listener, world = await workspace.listen(0), world or open_world()
        workspace.spec.env[ADDRESS] = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with serve_http(ServedTools(world), listener):
            yield world, workspace
        await workspace.close()


def options(arguments: dict[str, Any]) -> list[str]:
    return [word for name, value in arguments.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def as_json(arguments: dict[str, Any]) -> list[str]:
    return ["--json", json.dumps(arguments)]


async def run_command(workspace: Workspace, words: list[str]) -> tuple[int, str, str]:
    result = await workspace.exec(["service", *words], env={ADDRESS: workspace.spec.env[ADDRESS]})
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.long
@pytest.mark.parametrize("spell", [options, as_json])
async def test_command_in_a_sandbox_leads_to_the_same_state(
    backends: dict[str, Backend], spell: Callable[..., Any]
) -> None:
    plan = [(name, arguments) for name, arguments in PLAN if arguments != {"total": "many"}]
    texts = [pair for pair in expected() if not pair[0].startswith("Error (invalid)")]
    async with sandboxed(backends["namespaces"]) as (world, workspace):
        found = [await run_command(workspace, [name, *spell(arguments)]) for name, arguments in plan]
    assert [(out.removesuffix("\n"), code == 1) for code, out, _ in found] == texts
    assert world.database.digest() == planned()[1]


async def test_command_explains_itself(backends: dict[str, Backend]) -> None:
    async with sandboxed(backends["namespaces"]) as (_, workspace):
        code, listed, _ = await run_command(workspace, ["list"])
        assert (code, "cancel_order  Cancels a pending order\n" in listed) == (0, True)
        for words in (["help", "cancel-order"], ["cancel_order", "--help"]):
            code, text, _ = await run_command(workspace, words)
            assert text.startswith("service cancel_order --order-id STRING [--reason STRING]\n")
        assert await run_command(workspace, ["policy"]) == (0, "Cancel only pending orders.\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nope"], "Unknown action 'nope'"),
        (["add_order", "--total", "many"], "--total needs an argument of type integer"),
        (["add_order", "5"], "'5' is not an option"),
        (["add_order", "--total"], "--total needs a value"),
        (["add_order", "--sum", "5"], "add_order has no argument --sum; it has: --total"),
        (["add_order", "--json", "5"], "--json needs a JSON object"),
        (["add_order", "--json", "{"], "--json needs a JSON object"),
    ],
)
async def test_wrong_command_lines_have_their_own_exit_code(
    backends: dict[str, Backend], words: list[str], message: str
) -> None:
    async with sandboxed(backends["namespaces"]) as (world, workspace):
        code, out, err = await run_command(workspace, words)
    assert (code, out, world.calls) == (2, "", [])
    assert err.startswith(f"service: {message}")


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("words", "sent", "message"),
    [
        (["add_order", "--total", DEEP], b"", "--total needs an argument of type integer, and '[["),
        (["add_order", "--json", DEEP], b"", "--json needs a JSON object"),
        (["add_order", "--json", "-"], DEEP.encode(), "--json needs a JSON object"),
        (["add_order", "--json", "-"], b"\xff{}", "--json needs a JSON object"),
    ],
)
async def test_command_names_input_that_is_no_json(words: list[str], sent: bytes, message: str) -> None:
    code, out, err = await run_program(words, sent)
    assert (code, out) == (2, b"")
    assert err.decode().startswith(f"service: {message}")
    assert len(err) < 600


async def test_the_relay_goes_on_after_a_deep_line() -> None:
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    code, out, err = await run_program(["mcp"], DEEP.encode() + b"\n" + ping + b"\n")
    refused, answered = (json.loads(line) for line in out.splitlines())
    assert (code, err, answered) == (0, b"", {"jsonrpc": "2.0", "id": 1, "result": {}})
    assert refused["error"]["code"] == -32700


async def run_program(words: list[str], sent: bytes) -> tuple[int | None, bytes, bytes]:
    """Runs the command outside a sandbox on a served world; returns exit code, output and errors."""
    async with served() as (_, url):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(PROGRAM),
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"ASSAY_SERVICE_URL": url},
        )
        out, err = await process.communicate(sent)
    return process.returncode, out, err


async def test_command_without_a_service_says_so(backends: dict[str, Backend]) -> None:
    async with sandboxed(backends["namespaces"]) as (_, workspace):
        gone = await workspace.exec(["service", "list"], env={ADDRESS: "http://127.0.0.1:9"})
        unset = await workspace.exec("unset ASSAY_SERVICE_URL; service list")
    assert (gone.exit_code, unset.exit_code) == (2, 2)
    assert "does not answer" in gone.stderr
    assert "ASSAY_SERVICE_URL is not set" in unset.stderr


@pytest.mark.long
@sdk
@pytest.mark.parametrize("app", ["airline", "bank", "console", "mail", "shop", "tracker", "tracker+attachments"])
async def test_each_application_ends_alike_through_each_transport(app: str, backends: dict[str, Backend]) -> None:
    """The plan of a task, in process, over HTTP, over MCP with the official client, and by the command in a sandbox."""
    from mcp import StdioServerParameters

    (task,) = ServiceTasks(app=app, level="explicit", writes=2, files="attachments" in app).tasks(1, 0)
    given = task.environment.parameters
    plan = [(call["action"], dict(call["arguments"])) for call in given["plan"]]

    def opened() -> ServiceWorld:
        return ServiceWorld(given, task.environment.seed)

    direct = opened()
    texts = [(direct.act(name, arguments).content, False) for name, arguments in plan]
    digests = {"in process": direct.database.digest()}
    async with served(opened()) as (world, url):
        port = int(url.rpartition(":")[2])
        for name, arguments in plan:
            assert (await answer(port, "POST", f"/actions/{name}", json.dumps(arguments).encode()))[0] == 200
        digests["HTTP"] = world.database.digest()
    async with served(opened()) as (world, url):
        assert await run_plan_with_sdk(f"{url}/mcp", "auto", plan) == texts
        digests["MCP over HTTP"] = world.database.digest()
    async with served(opened()) as (world, url):
        target = StdioServerParameters(command=sys.executable, args=[str(PROGRAM), "mcp"], env={ADDRESS: url})
        assert await run_plan_with_sdk(target, "auto", plan) == texts
        digests["MCP over a pipe"] = world.database.digest()
    async with sandboxed(backends["namespaces"], opened()) as (world, workspace):
        for name, arguments in plan:
            code, out, _ = await run_command(workspace, [name, *as_json(arguments)])
            assert code == 0, out
        digests["command"] = world.database.digest()
    assert len(digests) == 5
    assert set(digests.values()) == {direct.database.digest()}
    assert direct.database.changes(judged_only=True)
