"""`assay view`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from assay.errors import UserError
from assay.settings import Settings

from .cluster import TokenFileOption, read_node_token
from .output import console, plain, say, sparse_lines
from .shared import StoreOption, pick_run, settings_with

if TYPE_CHECKING:
    from assay.rollout.cluster.live_status import LiveStatus

_MIB = 1 << 20


class _Target(NamedTuple):
    root: Path
    runs: tuple[str, ...]
    """Empty for the whole store."""


def view(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...",
            help="Names of runs or grids, or the folder of a store or run. Default: the whole store.",
            show_default=False,
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            help="Write the pages of the runs to this new folder; they need no server. Default: the newest run.",
        ),
    ] = None,
    limit_mib: Annotated[
        int,
        typer.Option("--limit-mib", min=1, help="Maximum MiB of --export; the rest is omitted and listed."),
    ] = 512,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port on loopback; 0 takes a free one.")] = 0,
    *,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="Export even if an attempt holds a credential or key-shaped text.")
    ] = False,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    notes: Annotated[
        bool,
        typer.Option("--notes", help="Let the pages add people's notes and tags to attempts, as events of the chain."),
    ] = False,
    token_file: TokenFileOption = None,
    store: StoreOption = None,
) -> None:
    """Shows runs as web pages: attempts, steps, verdicts with evidence, figures, live runs.

    The address contains a secret and works on this machine alone. Ctrl-C stops the server.

    Examples:

      assay view

      assay view my-run

      assay view /srv/assay/runs/my-run --no-open --port 8800

      assay view my-run --export site

      assay view before after --export site
    """
    import msgspec

    from assay.rollout.cluster.live_status import LiveStatus

    settings = settings_with(store)
    chosen = _parse_targets(targets or [], settings)
    if export is not None:
        _export(chosen, export, limit_mib * _MIB, settings, with_secrets=with_secrets)
    else:
        settings = msgspec.structs.replace(settings, store=chosen.root)
        status = LiveStatus(settings, read_node_token(token_file, settings))
        _serve(chosen, port, status, no_open=no_open, notes=notes)


def _parse_targets(targets: Sequence[str], settings: Settings) -> _Target:
    chosen = [_parse_target(target, settings) for target in targets] or [_Target(settings.store, ())]
    if len(chosen) > 1 and (len({one.root for one in chosen}) > 1 or not all(one.runs for one in chosen)):
        raise UserError(f"{' '.join(targets)}: name several runs of one store, or one store")
    return _Target(chosen[0].root, tuple(dict.fromkeys(run for one in chosen for run in one.runs)))


def _parse_target(target: str, settings: Settings) -> _Target:
    from assay.store import list_runs
    from assay.store.layout import grid_runs

    runs = (target,) if target in list_runs(settings.store) else tuple(grid_runs(settings.store, target))
    if runs:
        return _Target(settings.store, runs)
    folder = Path(target)
    if (folder / "runs").is_dir():
        return _Target(folder, ())
    whole = folder.resolve()
    if whole.parent.name == "runs" and whole.name in list_runs(whole.parent.parent):
        return _Target(whole.parent.parent, (whole.name,))
    if folder.exists():
        message = (
            f"{target} is neither a store (it has no folder `runs`) nor a run in one: `assay import {target}` reads "
        )
        message += "other people's records"
        raise UserError(message)

    return _Target(settings.store, (pick_run(target, settings),))  # says what there is


def _export(chosen: _Target, folder: Path, limit_bytes: int, settings: Settings, *, with_secrets: bool) -> None:
    import msgspec

    from assay.viewer.export import SECRET, export_runs

    runs = chosen.runs or (pick_run(None, msgspec.structs.replace(settings, store=chosen.root)),)
    if not with_secrets:
        for run in runs:
            _refuse_secrets(chosen.root, run, settings)
    lines = sparse_lines("views written", every_s=10)
    search = None if with_secrets else _secret_search(chosen.root, runs, settings)
    report = export_runs(
        chosen.root, runs, folder, limit_bytes, lambda views, _: lines(views, views), holds_secret=search
    )
    console().print(plain(str(report.folder / "index.html")))
    size = f"{report.size_bytes / _MIB:.1f} MiB"
    named = f"run {runs[0]}" if len(runs) == 1 else f"runs {', '.join(runs)}"
    say(f"{report.views} views of {named}, {size}: open the page in a browser, no server is needed")
    for kind, number in report.left_out.items():
        reason = "--with-secrets writes it" if kind == SECRET else "too large, see --limit-mib, or unreadable"
        say(f"left out: {kind}, {number} ({reason})")


def _refuse_secrets(root: Path, run: str, settings: Settings) -> None:
    from assay.rollout.exchange.secret_check import find_secrets

    found = find_secrets(root, run, settings)
    if found:
        attempt, names = next(iter(found.items()))
        raise UserError(
            f"run {run} is not exported: {len(found)} of its attempts hold a secret, first {attempt} "
            f"({', '.join(names)}); --with-secrets exports it all the same"
        )


def _secret_search(root: Path, runs: Sequence[str], settings: Settings) -> Callable[[bytes], bool]:
    from assay.rollout.exchange.secret_check import SecretCheck
    from assay.store import RunStore

    manifests = []
    for run in runs:
        with RunStore.open(root, run) as store:
            manifests.append(store.manifest())
    check = SecretCheck(manifests, settings)
    return lambda body: bool(check.clean(body).names)


def _serve(chosen: _Target, port: int, status: LiveStatus, *, no_open: bool, notes: bool) -> None:
    from assay.store import list_runs

    if not list_runs(chosen.root):
        raise UserError(f"no runs in {chosen.root}: make one with `assay run`, or name the folder with --store")
    try:
        asyncio.run(_serve_pages(chosen, port, status, no_open=no_open, notes=notes))
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _serve_pages(chosen: _Target, port: int, status: LiveStatus, *, no_open: bool, notes: bool) -> None:
    import signal
    import sys

    from assay.api.viewing import open_page
    from assay.learning.service.service_state import ServiceReader
    from assay.viewer.interface import view_name
    from assay.viewer.server import open_viewer

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    service = ServiceReader(chosen.root)
    async with open_viewer(chosen.root, port, notes=notes, read_nodes=status.read, read_service=service.read) as viewer:
        run = chosen.runs[0] if len(chosen.runs) == 1 else None
        url = viewer.url + (f"#/run/{run}" if run else "")
        console().print(url)
        say("only this address is served, on this machine alone; Ctrl-C stops it")
        if not no_open and sys.stdout.isatty():
            open_page(url)
        await viewer.warm(view_name("run", run, "rows") if run else "runs")
        await stop.wait()
