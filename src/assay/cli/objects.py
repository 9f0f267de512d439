"""`assay store copy`, `check` and `gc`: runs in object storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.errors import UserError

from .output import console, emit_json, plain, quantity, say, sparse_lines
from .shared import JsonOption

if TYPE_CHECKING:
    from assay.store.objects import CopyReport, ObjectCheckReport, UrlObjectStore

_PROGRESS_S = 2.0
UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER."
    ),
]


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Folder of a store, or a URL.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="URL, or the folder of a store.")],
    run: Annotated[
        list[str] | None, typer.Option("--run", help="Copy this run (repeatable). [default: all sealed runs]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Copies sealed runs between a folder and object storage.

    Copies what is missing, and verifies digests: after an interruption, repeat the command. Credentials and endpoint
    come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, ...).

    Examples:

      assay store copy .assay s3://my-bucket/runs

      assay store copy s3://my-bucket/runs cache --run my-run

      assay store copy .assay file:///shared/runs --json
    """
    from assay.store.objects import is_url

    if is_url(source) == is_url(target):
        what = "two URLs: copy to a folder first" if is_url(source) else "two folders: write file:///FOLDER for one"
        raise UserError(f"one of FROM and TO is the folder of a store, the other a URL; these are {what}")
    if is_url(source):
        reports = asyncio.run(_copy_from(_open(source), Path(target).expanduser(), run or []))
    else:
        reports = asyncio.run(_copy_to(Path(source).expanduser(), _open(target, create=True), run or []))
    if as_json:
        emit_json(reports)
        return
    for report in reports:
        sent = f"{quantity(report.sent, 'object')} ({report.bytes_sent / 2**20:.1f} MiB)"
        console().print(f"run {report.run}: copied {sent}; {report.already:,} were there")


async def _copy_to(root: Path, place: UrlObjectStore, names: list[str]) -> list[CopyReport]:
    from assay.store import Layout, list_runs
    from assay.store.layout import unknown_run
    from assay.store.objects import Publisher, require_create_only

    stored = list_runs(root)
    unknown = next((name for name in names if name not in stored), None)
    if unknown is not None:
        raise UserError(unknown_run(root, unknown))
    live = [name for name in stored if not names and not Layout(root, name).is_sealed]
    if live:
        say(f"not copied, because they are live (`assay seal RUN`): {', '.join(live)}")
    chosen = names or [name for name in stored if name not in live]
    if not chosen:
        raise UserError(f"no sealed runs in {root}: seal one with `assay seal`")
    await require_create_only(place)
    publisher = Publisher(root, place)
    return [await publisher.publish(name, _progress(name)) for name in chosen]


async def _copy_from(place: UrlObjectStore, root: Path, names: list[str]) -> list[CopyReport]:
    from assay.store.objects import fetch_runs

    reports = await fetch_runs(place, root, names, _progress)
    if not reports:
        raise UserError(f"no runs in {place}: copy one there with `assay store copy FOLDER {place}`")
    return reports


def check(url: UrlArgument, as_json: JsonOption = False) -> None:
    """Tests an object store, and verifies all runs in it by digest.

    First creates objects twice and at once under self-test/: a store that overwrites is refused. Then reads every
    object of sealed runs, and every trial of runs on nodes with its blobs. Exits with 1 if one is missing or changed.

    Examples:

      assay store check s3://my-bucket/runs

      assay store check file:///shared/runs --json
    """
    report = asyncio.run(_check(_open(url)))
    if as_json:
        emit_json(report)
    else:
        for problem in report.problems:
            console().print(plain(problem))
        console().print(
            f"{url}: creates objects once; {quantity(report.runs, 'sealed run')}, "
            f"{quantity(report.node_runs, 'run')} on nodes, {quantity(report.objects, 'object')} "
            f"({report.bytes_read / 2**20:.1f} MiB), {quantity(len(report.problems), 'problem')}"
        )
    if report.problems:
        raise typer.Exit(1)


async def _check(place: UrlObjectStore) -> ObjectCheckReport:
    from assay.rollout.cluster.check_trials import check_trials
    from assay.store.objects import ObjectCheckReport, check_place

    sealed = await check_place(place, sparse_lines("objects of sealed runs", every_s=_PROGRESS_S))
    trials = await check_trials(place, sparse_lines("objects of runs on nodes", every_s=_PROGRESS_S))
    return ObjectCheckReport(
        sealed.runs,
        sealed.objects + trials.objects,
        sealed.bytes_read + trials.bytes_read,
        sealed.problems + trials.problems,
        trials.node_runs,
    )


def gc(
    url: UrlArgument,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the objects; without it they are reported.")] = False,
    min_age_h: Annotated[
        float, typer.Option("--min-age-h", min=0.0, help="Keep younger objects. Below 168, copy nothing meanwhile.")
    ] = 168.0,
    as_json: JsonOption = False,
) -> None:
    """Deletes objects that no run refers to, such as those of interrupted copies and of erased blobs.

    Runs on nodes must have ended; their trials, the superseded ones too, and the blobs of these stay.

    Examples:

      assay store gc s3://my-bucket/runs

      assay store gc s3://my-bucket/runs --delete

      assay store gc file:///shared/runs --delete --min-age-h 0
    """
    from assay.rollout.cluster.place_references import referenced_blobs
    from assay.store.objects import collect_objects

    min_age_s = min_age_h * 3600
    collection = collect_objects(_open(url), dry_run=not delete, min_age_s=min_age_s, read_references=referenced_blobs)
    report = asyncio.run(collection)
    if as_json:
        emit_json(report)
        return
    verb = "deleted" if delete else "would delete"
    console().print(
        f"{verb} {quantity(len(report.objects), 'object')} that no run refers to "
        f"({report.bytes_freed / 2**20:.1f} MiB); kept {quantity(report.kept, 'object')} of runs"
    )
    if report.young:
        say(f"{report.young} more are younger than {min_age_h:g} h: repeat this later")
    if report.objects and not delete:
        say("delete them with --delete")


def _open(url: str, *, create: bool = False) -> UrlObjectStore:
    from assay.store.objects import is_url, open_place

    if not is_url(url):
        raise UserError(f"{url} is not a URL: write file:///FOLDER for a folder of objects (a store has `assay gc`)")
    if url.lower().startswith("memory:"):
        raise UserError("memory:// is for tests: nothing there outlives the command")
    return open_place(url, create=create)


def _progress(run: str) -> Callable[[int, int], None]:
    return sparse_lines(f"objects of run {run}", every_s=_PROGRESS_S)
