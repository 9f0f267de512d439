"""Records that contradict themselves, name what is not there or are too much: the rest of a run is shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Verdict,
    VerdictAdded,
)
from assay.store import RunStore, annotate, seal
from assay.viewer.export import export_runs
from assay.viewer.interface import view_name
from assay.viewer.server import open_viewer
from assay.viewer.steps import MOST_BYTES
from assay.viewer.views import make_view
from tests.viewer.made_runs import attempt, given, small_run

CHAIN = ("run", "r", "attempt", "a.0")


def run_of(root: Path, *bodies: Body, manifest: dict[str, Any] | None = None) -> None:
    began = AttemptStarted("r", "a", "t", "d", "loop", None, 0, 0, at=1.0)
    with RunStore.create(root, "r", manifest or {}) as store:
        store.append("a.0", [began, *bodies])


def shown(root: Path, *name: str | list[str]) -> Any:
    body = make_view(root, view_name(*name))
    assert body is not None
    return msgspec.json.decode(body)


def test_a_long_reason_is_not_searched_for_ever(tmp_path: Path) -> None:
    reason = ("a" * 50 + "/.") * 20_000
    run_of(
        tmp_path,
        EvidenceAdded(Evidence("v", "audit", "execution", {"stdout": reason})),
        VerdictAdded(Verdict("c", "outcome", "fail", 0.0, reason, ("v",))),
    )
    assert shown(tmp_path, *CHAIN, "outline")["verdicts"][0]["cited"][0]["place"]["line"] == 1


def test_a_test_that_a_reason_names_is_still_found(tmp_path: Path) -> None:
    out = "one\nsrc/test_lib.py::test_add FAILED\nFAILED at last"
    run_of(
        tmp_path,
        EvidenceAdded(Evidence("v", "audit", "execution", {"stdout": out})),
        VerdictAdded(Verdict("c", "outcome", "fail", 0.0, "failed: src/test_lib.py::test_add", ("v",))),
    )
    assert shown(tmp_path, *CHAIN, "outline")["verdicts"][0]["cited"][0]["place"]["row"] == 2


def test_evidence_that_names_no_blob_keeps_no_line_from_being_shown(tmp_path: Path) -> None:
    run_of(tmp_path, EvidenceAdded(Evidence("v", "audit", "screenshot", {}, ("../../etc/passwd",))))
    line = shown(tmp_path, *CHAIN, "lines", "0")["lines"][1]
    assert (line["blobs"], line["pictures"]) == (["../../etc/passwd"], [])
    assert export_runs(tmp_path, ["r"], tmp_path / "site").left_out == {}


def test_amounts_beyond_all_numbers_are_not_known(tmp_path: Path) -> None:
    metrics = {"prompt_tokens": 1.7e308, "completion_tokens": 1.7e308}
    run_of(tmp_path, AttemptEnded("done", at=2.0, metrics=metrics))
    assert shown(tmp_path, "run", "r", "rows")["columns"]["tokens"] == [None]


def test_tokens_of_which_a_part_is_unknown_are_unknown(tmp_path: Path) -> None:
    run_of(tmp_path, AttemptEnded("done", at=2.0, metrics={"prompt_tokens": 5.0}))
    assert shown(tmp_path, "run", "r", "rows")["columns"]["tokens"] == [None]


def test_names_that_begin_alike_are_told_apart(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        for n, end in enumerate("AB"):
            began = AttemptStarted("r", str(n), "t", "d", "x" * 300 + end, None, 0, n, at=1.0)
            store.append(f"{n}.0", [began, AttemptEnded("done", at=2.0)])
    names = shown(tmp_path, "run", "r", "rows")["names"]["agent"]
    assert (len(set(names)), max(map(len, names))) == (2, 300)
    assert {group["agent"] for group in shown(tmp_path, "run", "r", "card")["groups"]} == set(names)


def test_a_time_that_cannot_be_is_none(tmp_path: Path) -> None:
    run_of(tmp_path, manifest={"created": 10**400})
    assert shown(tmp_path, "runs")["runs"][0].get("created") is None


def test_the_list_of_runs_calls_a_pass_doubtful_that_was_found_so_later(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append_all([attempt("r", 0, "pass", given("integrity", "pass"))])
    seal(tmp_path, "r")
    annotate(tmp_path, "r", "pkg/t@0.0", [given("integrity", "fail")])
    assert shown(tmp_path, "runs")["runs"][0]["counts"] == {"doubt": 1}


def test_a_piece_of_lines_is_bounded(tmp_path: Path) -> None:
    many = {str(n): {str(m): "x" * 5900 for m in range(100)} for n in range(5)}
    calls = tuple(ToolCall(str(n), "bash", "{}", many) for n in range(3))
    run_of(tmp_path, *(StepAdded(Step(n, "agent", "m", tool_calls=calls)) for n in range(3)))
    body = make_view(tmp_path, view_name(*CHAIN, "lines", "0"))
    assert body is not None
    assert len(body) < MOST_BYTES + 10_000
    assert [line["kind"] for line in msgspec.json.decode(body)["lines"]] == ["started", "step", "large", "large"]


def test_pieces_follow_each_other(tmp_path: Path) -> None:
    run_of(tmp_path, *(StepAdded(Step(n, "agent", "m", observations=(Observation("x"),))) for n in range(50)))
    found = shown(tmp_path, *CHAIN, "lines", "40")["lines"]
    assert [(line["line"], line["event"]) for line in found] == [(n, n) for n in range(40, 51)]


def test_a_doubtful_pass_is_no_pass_where_ways_part(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append_all([attempt("r", n, "pass", given("integrity", "fail" if n else "pass")) for n in range(2)])
    found = shown(tmp_path, "run", "r", "compare", ["pkg/t@0.0", "pkg/t@1.0"])
    assert [one["outcome"] for one in found["attempts"]] == ["pass", "doubt"]
    assert (found["tree"]["passed"][0], found["tree"]["failed"][0]) == (1, 0)


@pytest.mark.long
def test_what_is_compared_is_bounded(tmp_path: Path) -> None:
    began = [AttemptStarted("r", name, "t", "d", "loop", None, 0, 0, at=1.0) for name in "ab"]
    call = ToolCall("1", "bash", "{}", {"command": "x" * 100_000})
    outputs = tuple(Observation("x" * 5000) for _ in range(100))
    steps = [StepAdded(Step(n, "agent", "m", tool_calls=(call,), observations=outputs)) for n in range(100)]
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append_all([(f"{name}.0", [start, *steps]) for name, start in zip("ab", began, strict=True)])
    found = shown(tmp_path, "run", "r", "compare", ["a.0", "b.0"])
    assert [one["acts"] + one["left_out"] for one in found["attempts"]] == [100, 100]
    assert all(0 < one["left_out"] < 50 for one in found["attempts"])


async def test_a_request_that_is_none_prints_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    small_run(tmp_path)
    async with open_viewer(tmp_path) as viewer:
        for target in (b"/\xff/", b"*", f"/{viewer.token}/data/run/r/compare/a+%ff".encode()):
            reader, writer = await asyncio.open_connection("127.0.0.1", viewer.port)
            writer.write(b"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % (target, viewer.port))
            assert int((await reader.read()).split(b" ", 2)[1]) in (400, 404)
            writer.close()
    assert [record for record in caplog.records if record.exc_info] == []
