"""`assay verify`: checks the integrity of a stored run and re-judges its verdicts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from assay.errors import UserError
from assay.rollout.rejudge.config import ReverifyConfig

from .cluster import NodesOption, PlaceOption, TokenFileOption, read_placement
from .options import takes_config
from .output import console, emit_json, explain_interruption, plain, quantity, say, sparse_lines
from .shared import JsonOption, RunArgument, StoreOption, pick_run, settings_with
from .tables import print_rows

if TYPE_CHECKING:
    from assay.rollout.cluster.node_session import PlacedRunOptions
    from assay.rollout.rejudge.reverify import ReverifyReport
    from assay.settings import Settings
    from assay.store import Receipt, ReceiptCoverage

SHOWN = 40


class VerifyConfig(ReverifyConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References that a run is compared with."""

    receipt: str | None = None
    """Compare the run with a receipt of it that was kept elsewhere (`assay receipt`)."""
    key: str | None = None
    """Whose signature the receipt must have: a public key file, or `ed25519:` and 64 hexadecimal digits."""


@takes_config(VerifyConfig, arguments=())
def verify(
    config: VerifyConfig,
    run: RunArgument = None,
    chain: Annotated[
        bool,
        typer.Option(
            "--chain/--no-chain", help="Recompute the chains, and compare rows, tables, seal and addenda with them."
        ),
    ] = True,
    blobs: Annotated[
        bool, typer.Option("--blobs/--no-blobs", help="Read every blob that the record refers to and recompute it.")
    ] = True,
    store: StoreOption = None,
    *,
    place: PlaceOption = None,
    nodes: NodesOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recomputes every digest of a stored run and locates what was changed, removed, inserted or lost.

    Checks both parts by default. Chains are unkeyed: a rewrite with new digests, or a cut tail, shows only against a
    receipt that is stored elsewhere (--receipt).

    --again rebuilds the final state of each attempt from the store and judges it again: agree, disagree, flaky, or
    cannot, with the reason. Results are appended beside the first verdicts. After an interruption, repeat the command.
    With --nodes the judging is done by nodes, as the attempts of `assay run` are.
    Exits with 1 on an integrity problem, or on a verdict that disagrees or is flaky.

    Examples:

      assay verify my-run --chain

      assay verify my-run --no-blobs

      assay verify --json

      assay verify my-run --receipt my-run.receipt --key lab.key.pub

      assay verify my-run --again 3

      assay verify my-run --again 1 --check-version today --tasks tasks/ --attempt hello@0

      assay verify my-run --again 1 --nodes 2
    """
    from assay.store import audit, check_receipt, list_erasures

    reverify_config = ReverifyConfig(**{name: getattr(config, name) for name in ReverifyConfig.__struct_fields__})
    if config.again == 0 and (reverify_config != ReverifyConfig() or nodes is not None or place is not None):
        raise UserError("these options need --again N, for example --again 1")
    if not chain and not blobs and config.again == 0:
        raise UserError("nothing to verify: use --no-chain or --no-blobs, not both")
    if (config.receipt is not None and not chain) or (config.receipt is None and config.key is not None):
        raise UserError("a receipt needs recomputed chains: use --receipt FILE (and --key) without --no-chain")
    settings = settings_with(store)
    options = read_placement(place, nodes, token_file, settings)
    name = pick_run(run, settings)
    done = [word for word, is_done in (("chain", chain), ("blobs", blobs)) if is_done]
    expected = None if config.receipt is None else _read_receipt(config.receipt, config.key)
    problems = audit(settings.store, name, chains=chain, blobs=blobs) if done else ()
    coverage = None if expected is None else check_receipt(settings.store, name, expected.receipt, key=expected.key)
    problems += coverage.problems if coverage is not None else ()
    erased = list_erasures(settings.store, name) if blobs else ()
    report = None if problems or config.again == 0 else _reverify(name, reverify_config, settings, options)
    if as_json:
        receipt_fields = (
            {} if coverage is None else {"receipt": {k: v for k, v in coverage._asdict().items() if k != "problems"}}
        )
        _emit({"run": name, "verified": done, "problems": problems, "erased": erased, **receipt_fields}, report)
    else:
        _print(name, done, problems)
        for one in {one.blob: one for one in erased}.values():
            say(f"erased on purpose: {one.blob[:19]}: {one.reason}")
        if coverage is not None:
            _print_coverage(coverage, key_given=config.key is not None)
        if report is not None:
            _print_report(report)
    if problems or (report is not None and report.counts["disagree"] + report.counts["flaky"]):
        raise typer.Exit(1)


class _ReceiptCheck(NamedTuple):
    receipt: Receipt
    key: str | None


def _read_receipt(receipt: str, key: str | None) -> _ReceiptCheck:
    from assay.store import public_key, read_receipt

    return _ReceiptCheck(read_receipt(Path(receipt)), None if key is None else public_key(key))


def _print_coverage(coverage: ReceiptCoverage, *, key_given: bool) -> None:
    covered = f"{quantity(coverage.chains, 'chain')}, {quantity(coverage.events, 'event')}"
    covered += f" and {quantity(coverage.addenda, 'addendum')}"
    what = "the receipt does not hold" if coverage.problems else "the receipt holds"
    later = (coverage.later_chains, "chain"), (coverage.later_events, "event"), (coverage.later_addenda, "addendum")
    since = ", ".join(quantity(count, name) for count, name in later if count)
    console().print(f"{what}: it covers {covered}" + (f"; not covered: {since}" if since else ""))
    if coverage.signed_by is None:
        say("the receipt is unsigned: it is as trustworthy as its storage")
    else:
        known = "" if key_given else "; compare this with the expected key (--key checks it)"
        say(f"signed by {coverage.signed_by}{known}")


def _reverify(run: str, config: ReverifyConfig, settings: Settings, options: PlacedRunOptions | None) -> ReverifyReport:
    from functools import partial

    from assay.rollout import reverify

    elsewhere = None
    if options is not None:
        from assay.rollout.reverification_on_nodes import judge_on_nodes

        from .live import LineDisplay

        elsewhere = partial(judge_on_nodes, settings, options, LineDisplay())
    show = sparse_lines("attempts judged again", every_s=10)
    with explain_interruption(f"Re-judged attempts are stored: the same command continues with run {run}"):
        return asyncio.run(reverify(run, config, settings, show, elsewhere))


def _emit(problems: dict[str, Any], report: ReverifyReport | None) -> None:
    if report is not None:
        problems["again"] = {**msgspec.structs.asdict(report), "counts": report.counts}
    emit_json(problems)


def _print(run: str, done: list[str], problems: tuple[object, ...]) -> None:
    if problems:
        print_rows([{"problem": str(problem)} for problem in problems])
    elif done:
        left = "".join(f" (--no-{word}: not looked at)" for word in ("chain", "blobs") if word not in done)
        console().print(f"run {run}: every digest of {' and '.join(done)} holds{left}")


def _print_report(report: ReverifyReport) -> None:
    order = ("disagree", "flaky", "cannot", "agree")
    print_rows(
        [
            {"attempt": one.attempt, "agent": one.agent, "check": one.check, "was": one.was, "now": one.mark}
            for one in sorted(report.results, key=lambda one: order.index(one.mark))[:SHOWN]
        ]
    )
    if len(report.results) > SHOWN:
        console().print(f"... and {len(report.results) - SHOWN} more (--json tells all)")
    for one in [one for one in report.results if one.mark != "agree"][:SHOWN]:
        console().print(plain(f"{one.attempt}, {one.check}: {one.reason}".replace("\n", " "))[:2000])
    told = ", ".join(f"{count} {mark}" for mark, count in report.counts.items())
    before = sum(one.before for one in report.results)
    more = f"; {before} of them judged again before" if before else ""
    unjudged = f"; never judged: {quantity(len(report.unjudged), 'attempt')}" if report.unjudged else ""
    console().print(f"run {report.run}, judged again: {told}{more}{unjudged}")
