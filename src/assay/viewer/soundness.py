"""The views of an admission: the proofs and findings about each task's verifier.

Reports are read as plain JSON, so that those of other versions are shown as far as possible. They are untrusted: texts
are truncated, invalid numbers left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.records import EvidenceAdded
from assay.store import ADMISSION, AttemptRow, RunStore

from .interface import Fields, View, json_bytes, run_view_name, view_name

MOST_TASKS = 5000
MOST_EACH = 400
"""Findings, survivors, probes of one task."""
MOST_TEXT = 4000
SEVERITIES = ("hole", "broken", "weak", "note")


def soundness(root: Path, run: str) -> dict[str, Any]:
    """Returns an admission's tasks, or the certificates that another run required.

    Raises:
        StoreError: The run is missing or damaged.
    """
    with RunStore.open(root, run) as store, store.snapshot():
        manifest = store.manifest()
        rows = _certified_rows(store)
        lines = [_line(row, _certificate(store, row.chain)) for row in rows[:MOST_TASKS]]
    certificates = [
        _certificate_place(task, place) for task, place in list(_map(manifest.get("certificates")).items())[:MOST_TASKS]
    ]
    return {
        "run": run,
        "admission": ADMISSION in manifest,
        "planned": len(_map(manifest.get("tasks"))),
        "tasks": lines,
        "left_out": max(0, len(rows) - MOST_TASKS),
        "rests_on": [one for one in certificates if one is not None],
    }


def _certificate_place(task: str, reference: object) -> dict[str, str] | None:
    """Returns the place of a certificate that the run required."""
    if not (isinstance(reference, list) and len(reference) == 3 and all(isinstance(part, str) for part in reference)):
        return None
    return {"task": _text(task), "run": reference[0], "chain": reference[1]}


def soundness_of_task(root: Path, run: str, chain: str) -> dict[str, Any] | None:
    """Returns the whole report of one task; None where that chain has none.

    Raises:
        StoreError: The run is missing or damaged.
    """
    with RunStore.open(root, run) as store:
        row = next((row for row in _certified_rows(store) if row.chain == chain), None)
        if row is None:
            return None
        report = _report(store, chain)
        known = {one.chain for one in store.attempts()}
    return {"run": run, "chain": chain, "task": row.task[:MOST_TEXT], "report": _report_json(report, known)}


def _certified_rows(store: RunStore) -> list[AttemptRow]:
    return sorted((r for r in store.attempts() if r.agent == ADMISSION and r.final), key=lambda row: row.task)


def _certificate(store: RunStore, chain: str) -> Mapping[str, Any]:
    found = _evidence(store, chain)
    return found.evidence.data if found is not None and isinstance(found.evidence.data, dict) else {}


def certificate_line(store: RunStore, row: AttemptRow) -> dict[str, Any]:
    """Returns what a certificate says of its task, in short."""
    return _line(row, _certificate(store, row.chain))


def _evidence(store: RunStore, chain: str) -> EvidenceAdded | None:
    bodies = (event.body for event in store.events(chain))
    return next((b for b in bodies if isinstance(b, EvidenceAdded) and b.evidence.kind == "certificate"), None)


def _report(store: RunStore, chain: str) -> Mapping[str, Any]:
    found = _evidence(store, chain)
    if found is None or not found.evidence.blobs:
        return {}
    try:
        decoded = msgspec.json.decode(store.blobs.get(found.evidence.blobs[0]))
    except msgspec.DecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _line(row: AttemptRow, certificate: Mapping[str, Any]) -> dict[str, Any]:
    admitted, found = _flags(certificate.get("admitted")), _map(certificate.get("findings"))
    results = list(_map(certificate.get("results")).values())
    return {
        "task": row.task[:MOST_TEXT],
        "chain": row.chain,
        "admitted": admitted,
        "findings": {name: _number(found.get(name)) or 0 for name in SEVERITIES},
        "attempts": len(results),
        "passed": sum(result == "pass" for result in results),
        "broke": sum(isinstance(result, str) and result.startswith("broke") for result in results),
        "quick": certificate.get("quick") is True,
        "accepted_wrongly": _number(certificate.get("accepted_wrongly")) or 0,
        "separation": _text(certificate.get("separation")) or "unknown",
        "at": _number(certificate.get("at")),
    }


def _report_json(report: Mapping[str, Any], chains: Iterable[str]) -> dict[str, Any]:
    known = set(chains)
    probes = [_probe(one, known) for one in _dicts(report.get("probes"))]
    sensitivity = report.get("sensitivity")
    return {
        "digest": _text(report.get("task_digest")),
        "admitted": _flags(report.get("admitted")),
        "accepted_wrongly": _number(_map(report.get("sensitivity")).get("changed")) or 0,
        "separation": _text(report.get("separation")) or "unknown",
        "findings": [_finding(one) for one in _dicts(report.get("findings"))],
        "completeness": _completeness(_map(report.get("completeness"))),
        "sensitivity": _sensitivity(sensitivity) if isinstance(sensitivity, dict) else None,
        "strictness": _strictness(report.get("strictness")),
        "cost": _numbers(report.get("cost")),
        "difficulty": [
            {**_pick_texts(one, ("agent", "model")), **_rates(one)} for one in _dicts(report.get("difficulty"))
        ],
        "changed": _texts(report.get("changed")),
        "probes": probes,
        "untried": [_pick_texts(one, ("probe", "group", "reason")) for one in _dicts(report.get("untried"))],
    }


def _finding(one: Mapping[str, Any]) -> dict[str, Any]:
    texts = _pick_texts(one, ("kind", "probe", "severity", "text", "verification"))
    severity = texts["severity"] if texts["severity"] in SEVERITIES else "note"
    more = {"closed_by": _texts(one.get("closed_by")), "evidence": _texts(one.get("evidence"))}
    return {**texts, "severity": severity, "heuristic": one.get("heuristic") is True, **more}


def _completeness(one: Mapping[str, Any]) -> dict[str, Any]:
    circumstances = list(_map(one.get("circumstances")).items())[:MOST_EACH]
    return {**_rates(one), "circumstances": {_text(k): _text(v) for k, v in circumstances}}


def _sensitivity(one: Mapping[str, Any]) -> dict[str, Any]:
    operators = [
        {"operator": _text(name), "tried": _number(pair[0]), "rejected": _number(pair[1])}
        for name, pair in list(_map(one.get("operators")).items())[:MOST_EACH]
        if isinstance(pair, list) and len(pair) == 2
    ]
    fields = ("name", "operator", "judgement", "diff", "by", "witness", "attempt")
    survivors = [_pick_texts(each, fields) for each in _dicts(one.get("survivors"))]
    return {**_rates(one), "operators": operators, "survivors": survivors}


def _strictness(one: Any) -> dict[str, Any] | None:
    return {**_rates(one), "rejected_names": _texts(one.get("rejected"))} if isinstance(one, dict) else None


def _rates(one: Mapping[str, Any]) -> dict[str, Any]:
    """Returns numbers, and intervals as pairs."""
    pairs = {name: value for name, value in one.items() if isinstance(value, list) and len(value) == 2}
    return _numbers(one) | {n: pair for n, pair in pairs.items() if None not in map(_number, pair)}


def _probe(one: Mapping[str, Any], chains: set[str]) -> dict[str, Any]:
    texts = _pick_texts(one, ("probe", "group", "wanted", "verification", "about", "outcome", "reason", "broke"))
    chain = one.get("chain")
    return {**texts, "chain": chain if isinstance(chain, str) and chain in chains else None}


def _text(value: object) -> str:
    return value[:MOST_TEXT] if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [_text(each) for each in value[:MOST_EACH]] if isinstance(value, list) else []


def _pick_texts(one: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    return {name: _text(one.get(name)) for name in names}


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _numbers(value: object) -> dict[str, Any]:
    return {name: number for name, each in _map(value).items() if (number := _number(each)) is not None}


def _flags(value: object) -> dict[str, bool]:
    return {_text(name): each is True for name, each in list(_map(value).items())[:4]}


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> Sequence[Mapping[str, Any]]:
    given: list[object] = value if isinstance(value, list) else []
    return [each for each in given if isinstance(each, dict)][:MOST_EACH]


def _all(root: Path, fields: Fields) -> bytes:
    return json_bytes(soundness(root, fields["run"]))


def _one(root: Path, fields: Fields) -> bytes | None:
    found = soundness_of_task(root, fields["run"], fields["chain"])
    return None if found is None else json_bytes(found)


def _names_of_tasks(root: Path, run: str) -> Iterable[str]:
    return [view_name("run", run, "soundness", one["chain"]) for one in soundness(root, run)["tasks"]]


VIEWS = (
    View("run/{run}/soundness", _all, run_view_name("soundness")),
    View("run/{run}/soundness/{chain}", _one, _names_of_tasks),
)
