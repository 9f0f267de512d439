"""`assay node` and `assay status`: runs on many machines."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from assay.errors import UserError
from assay.rollout.cluster.node_config import NodeConfig

from .options import takes_config
from .output import console, emit_json, plain, quantity, say
from .shared import JsonOption, StoreOption, settings_with

if TYPE_CHECKING:
    from assay.rollout.cluster.node_session import PlacedRunOptions
    from assay.rollout.cluster.place_records import AgentAnnouncement
    from assay.rollout.cluster.run_status import ClusterStatus
    from assay.settings import Settings

MOST_DIGITS = 9
"""Of a number of nodes."""
PlaceOption = Annotated[
    str | None,
    typer.Option(
        "--place",
        metavar="URL",
        help="Object storage through which nodes do the attempts: s3://BUCKET/PREFIX, gs://..., az://... or "
        "file:///FOLDER. [default with --nodes N: the folder objects in the store]",
        show_default=False,
    ),
]
NodesOption = Annotated[
    str | None,
    typer.Option(
        "--nodes",
        metavar="N|external|ray:ADDRESS",
        help="Run the attempts in N node processes on this machine, each with --concurrency attempts at once; on a "
        "cluster of Ray, a node on each machine: ray:HOST:PORT, ray://HOST:PORT (Ray Client), ray:auto, or ray:local, "
        "which starts Ray here; or wait for nodes that you start with `assay node`.",
        show_default=False,
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="File with the token that command and nodes share. [default: $ASSAY_NODE_TOKEN]",
        show_default=False,
    ),
]


SAME_SIGNAL_S = 1.0
"""A signal that is repeated within this time is one: `timeout` sends each twice."""


class Placement(NamedTuple):
    """Options of nodes, as a command was given them."""

    nodes: str | None
    place: str | None
    token_file: Path | None

    def read(self, settings: Settings) -> PlacedRunOptions | None:
        """Returns where attempts are made; None for this process. Raises `UserError`."""
        return read_placement(self.place, self.nodes, self.token_file, settings)


NO_PLACEMENT = Placement(None, None, None)


def takes_placement(function: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options --nodes, --place and --token-file in the place of its parameter `placement`."""
    options = {"nodes": NodesOption, "place": PlaceOption, "token_file": TokenFileOption}
    parameters = []
    for one in inspect.signature(function, eval_str=True).parameters.values():
        if one.name == "placement":
            parameters += [one.replace(name=name, annotation=kind, default=None) for name, kind in options.items()]
        else:
            parameters.append(one)

    def command(*arguments: Any, **values: Any) -> None:
        given = Placement(**{name: values.pop(name) for name in options})
        function(*arguments, **values, placement=given)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__, command.__name__ = function.__doc__, function.__name__
    return command


def read_placement(
    place: str | None, nodes: str | None, token_file: Path | None, settings: Settings
) -> PlacedRunOptions | None:
    """Returns where the attempts of a run are done; None for this process. Raises `UserError`."""
    if place is None and nodes is None:
        return None
    from assay.rollout.cluster.node_session import PlacedRunOptions

    if nodes is None:
        raise UserError("--place needs --nodes: a number of node processes on this machine, `external` or `ray:...`")
    if nodes == "external":
        return PlacedRunOptions(place, None, read_node_token(token_file, settings))
    if nodes.startswith("ray:"):
        return PlacedRunOptions(place, nodes, read_node_token(token_file, settings))
    if not nodes.isascii() or not nodes.isdigit() or len(nodes) > MOST_DIGITS or int(nodes) < 1:
        raise UserError(f"--nodes {nodes[:80]}: give a number from 1, `external` or `ray:...`")
    return PlacedRunOptions(place, int(nodes))


def resumed_placement(
    run: str, settings: Settings, place: str | None, nodes: str | None, token_file: Path | None
) -> PlacedRunOptions | None:
    """Returns where the rest of a run is done, by default where it was started; None for this process."""
    from assay.rollout.cluster.placed_run import find_label

    label = find_label(run, settings)
    if label is not None:
        place, nodes = place or label.url, nodes or ("external" if label.nodes is None else str(label.nodes))
    return read_placement(place, nodes, token_file, settings)


def read_node_token(token_file: Path | None, settings: Settings) -> str | None:
    """Returns the token of a file, else that of the environment; None without one. Raises `UserError`."""
    from assay.http.bearer import load_token, require_token

    if token_file is None:
        if settings.node_token is not None:
            require_token(settings.node_token, "$ASSAY_NODE_TOKEN")
        return settings.node_token
    if not token_file.is_file():
        raise UserError(f"--token-file {token_file} does not exist: put a random text into it, and chmod 600 it")
    return load_token(token_file)


@takes_config(NodeConfig, arguments=("runs",))
def node(config: NodeConfig, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Does attempts of runs that were started with `--nodes external`, on this machine, until the runs are complete.

    The node reads the runs' configurations from the place, and their tasks from the same paths as on the machine where
    they were started. Several runs take turns on its slots. SIGTERM and Ctrl-C return what has not started and upload
    what is under way.

    Examples:

      assay node my-run --place s3://my-bucket/runs --token-file token

      assay node my-run --place file:///shared/objects --token-file token --slots 16 --listen 0.0.0.0:7070
      --tls-cert node.pem --tls-key node.key

      assay node one-run another-run --place s3://my-bucket/runs --token-file token --slots 16
    """
    from assay.rollout.cluster.node import serve_node

    settings = settings_with(store)
    token = read_node_token(None if config.token_file is None else Path(config.token_file), settings)
    if token is None:
        raise UserError("a node needs a token: --token-file FILE, or $ASSAY_NODE_TOKEN")

    received: dict[float, int] = {}

    async def serve_until_signalled() -> int:
        import signal

        from assay.rollout.cluster.node import LeaveRequest

        leave = LeaveRequest()
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()

        def on_signal(number: int) -> None:
            now = loop.time()
            if received and now - max(received) < SAME_SIGNAL_S:
                return
            is_again = bool(received)
            received[now] = number
            if is_again and task is not None:
                say("ending at once: what is not uploaded is run again by other nodes")
                task.cancel()
                return
            say("leaving: giving back leases, uploading what is under way")
            leave.set("told")

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal, number)
        say(f"looking for {', '.join(config.runs)} in {config.place}")
        return await serve_node(config, token, settings, leave, lambda one: _show_node(one, as_json=as_json))

    left = 0
    with suppress(asyncio.CancelledError):
        left = asyncio.run(serve_until_signalled())
    if left:
        say(f"assay: {quantity(left, 'attempt')} could not be uploaded in time: they are run again by other nodes")
        raise typer.Exit(3)
    if received:
        raise typer.Exit(128 + received[min(received)])


def _show_node(announced: AgentAnnouncement, *, as_json: bool) -> None:
    import sys

    if as_json:
        emit_json({"agent": announced.agent, "url": announced.url, "slots": announced.slots})
    else:
        console().print(f"node {announced.agent} at {announced.url}, {announced.slots} slots")
    sys.stdout.flush()


def status(
    run: Annotated[str, typer.Argument(help="Name of the run.")],
    place: PlaceOption = None,
    store: StoreOption = None,
    token_file: TokenFileOption = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            "--nodes",
            metavar="ray:ADDRESS",
            help="The cluster of Ray whose nodes are asked. [default: that of the run, if the store knows it]",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Shows a run on nodes: decided attempts, what the nodes do now, superseded trials, errors by boundary.

    Reads the place, and asks the nodes; works while the run goes on, and without the command that started it. Exits
    with 1 if an object of the run is damaged.

    Examples:

      assay status my-run

      assay status my-run --place s3://my-bucket/runs --token-file token --json

      assay status my-run --place s3://my-bucket/runs --nodes ray://127.0.0.1:10001
    """
    from assay.rollout.cluster.live_status import open_links
    from assay.rollout.cluster.placed_run import find_place
    from assay.rollout.cluster.run_status import read_status
    from assay.store.objects import open_place

    settings = settings_with(store)
    url = place or find_place(run, settings)
    token = read_node_token(token_file, settings)

    async def read() -> ClusterStatus:
        async with open_links(run, settings, token, nodes) as connect:
            return await read_status(open_place(url), run, connect)

    found = asyncio.run(read())
    if as_json:
        emit_json(found)
    else:
        _print_status(found)
    if found.problems:
        raise typer.Exit(1)


def _print_status(found: ClusterStatus) -> None:
    shown = console()

    def show(text: str) -> None:
        shown.print(plain(text).replace("\n", "\\n"))  # names and URLs come from the place

    outcomes = "".join(f", {count} {name}" for name, count in found.outcomes.items())
    whole = f"of {quantity(found.attempts, 'attempt')}" if found.attempts else "decided"
    show(f"run {found.run} in {found.place}: {found.finals} {whole}{outcomes}")
    if found.nodes and not found.ended and all(one.state == "not asked" for one in found.nodes):
        is_ray = any(one.url.startswith("ray:") for one in found.nodes)
        remedy = "repeat this, or name the cluster with --nodes" if is_ray else "give the run's token with --token-file"
        show(f"now: unknown, because no node was asked: {remedy}")
    else:
        show(f"now: {found.running} running, {quantity(found.leases, 'lease')}")
    show(f"not counted: {found.superseded} superseded, {found.retried} retried, {found.interrupted} interrupted")
    if found.errors:
        show("errors: " + ", ".join(f"{count} {name}" for name, count in found.errors.items()))
    for one in found.nodes:
        load = (
            "" if one.running is None else f"; {one.running} running, {one.waiting} waiting, {one.uploading} uploading"
        )
        if one.allowed is not None and one.allowed < one.slots:
            load += f"; {one.allowed} at once, because a model server or the place is overloaded"
        if one.upload_wait_s:
            load += f" ({one.spool_bytes} bytes, the oldest for {one.upload_wait_s:.1f} s)"
        if one.problem is not None:
            load += f"; {one.problem.removeprefix(f'agent {one.agent} ').removeprefix(f'at {one.url} ')}"
        show(f"node {one.agent} at {one.url}: {one.state}, {one.slots} slots{load}")
    if found.throughput is not None and len(found.throughput.counts) > 1:
        recent = found.throughput.counts[-10:]
        seconds = len(recent) * found.throughput.interval_s
        a_minute = sum(recent) / seconds * 60
        rate = f"{a_minute:,.{0 if a_minute >= 10 else 1}f}"
        show(f"rate: {rate} attempts a minute in the last {seconds:,.0f} s of decisions")
    for problem in found.problems:
        show(f"damaged: {problem}")
    if not found.ended:
        say(f"not complete; if no command coordinates it: {_way_on(found)}")


def _way_on(found: ClusterStatus) -> str:
    if found.work is None:
        return f"assay resume {found.run}"
    if found.work == "admission":
        return f"assay admit --resume {found.run}"
    return "give the command that began it again" + (", which begins anew" if found.work == "replay" else "")
