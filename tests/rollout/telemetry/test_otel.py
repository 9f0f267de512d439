"""Traces and metrics of real runs, as a collector of OpenTelemetry receives them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.agents.interface import Attempt
from assay.errors import UserError
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall
from assay.gateway.interface import ModelRequest
from assay.records import Limits
from assay.rollout import RunConfig, RunParts, Tally, resume_run, start_run
from assay.settings import Settings
from assay.store import RunStore
from tests.optional import require_packages

require_packages("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
from tests.rollout.telemetry.collector import Collector, attributes  # noqa: E402

TASKS = "family:grid,n=2,size=3"
SECRET = "sk-do-not-send-this-0123456789abcdef"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        yield running


async def run(root: Path, parts: RunParts | None = None, backend: Any = None, **options: Any) -> Tally:
    tally = Tally()
    config = RunConfig(**({"tasks": (TASKS,), "agent": "expert", "run": "r", "otel": True} | options))
    await start_run(config, Settings(root, root), tally, parts=parts, backend=backend)
    return tally


def outcomes(root: Path) -> dict[str, tuple[str | None, int]]:
    with RunStore.open(root, "r") as store:
        return {row.attempt: (row.outcome, row.steps) for row in store.attempts() if row.final}


async def test_an_attempt_is_a_trace_of_its_phases(tmp_path: Path, collector: Collector) -> None:
    tally = await run(tmp_path, attempts=2)
    assert tally.warnings == []
    roots = {span.span_id: span for span in collector.named("attempt")}
    assert len(roots) == len({span.trace_id for span in roots.values()}) == 4
    for root in roots.values():
        inside = [span for span in collector.spans if span.parent_span_id == root.span_id]
        assert [span.name for span in sorted(inside, key=lambda one: one.start_time_unix_nano)] == [
            "open", "invoke_agent expert", "settle", "judge", "commit",
        ]  # fmt: skip
        assert {span.trace_id for span in inside} == {root.trace_id}
        assert root.start_time_unix_nano <= min(span.start_time_unix_nano for span in inside)
        assert root.end_time_unix_nano >= max(span.end_time_unix_nano for span in inside)
        facts = attributes(root)
        assert (facts["assay.run"], facts["gen_ai.agent.name"], facts["assay.outcome"]) == ("r", "expert", "pass")
        assert facts["assay.attempt"].startswith(facts["assay.task"])
        (event,) = root.events
        assert (event.name, attributes(event)["gen_ai.evaluation.score.label"]) == ("gen_ai.evaluation.result", "pass")
    assert {one["service.name"] for one in collector.resources} == {"assay"}
    assert {one["assay.run"] for one in collector.resources} == {"r"}


async def test_tool_calls_are_inside_the_agent(tmp_path: Path, collector: Collector) -> None:
    await run(tmp_path)
    agents = {span.span_id: span for span in collector.named("invoke_agent expert")}
    tools = [span for span in collector.spans if span.name.startswith("execute_tool ")]
    assert len(tools) == sum(steps for _, steps in outcomes(tmp_path).values())
    for span in tools:
        agent = agents[span.parent_span_id]
        assert agent.start_time_unix_nano - 1_000_000 <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= agent.end_time_unix_nano + 1_000_000
        facts = attributes(span)
        assert (facts["gen_ai.operation.name"], facts["gen_ai.tool.type"]) == ("execute_tool", "function")


def _reply(request: ModelRequest) -> Reply:
    if len(request.messages) > 3:
        return Reply(content=f"done {SECRET}")
    return Reply(content="I move.", tool_calls=(ScriptedCall("move", {"direction": "up", "why": SECRET}),))


async def test_model_calls_carry_the_conventions_and_no_text(tmp_path: Path, collector: Collector) -> None:
    backend = ScriptedBackend(_reply, "scripted:test")
    await run(tmp_path, backend=backend, agent="loop", model="scripted:test", limits=Limits(turns=4))
    chats = collector.named("chat scripted:test")
    assert chats
    agents = {span.span_id for span in collector.named("invoke_agent loop")}
    for span in chats:
        facts = attributes(span)
        assert span.parent_span_id in agents
        assert (facts["gen_ai.operation.name"], facts["gen_ai.request.model"]) == ("chat", "scripted:test")
        assert facts["gen_ai.usage.output_tokens"] > 0
        assert facts["gen_ai.provider.name"]
    sent = b"".join(span.SerializeToString() for span in collector.spans)
    assert SECRET.encode() not in sent
    assert b"I move." not in sent
    tokens = {
        attributes(p)["type"]: p.as_double or p.as_int for p in collector.metrics["assay_model_tokens"].sum.data_points
    }
    assert tokens["output"] == sum(attributes(span)["gen_ai.usage.output_tokens"] for span in chats)


async def test_metrics_of_the_run_are_sent(tmp_path: Path, collector: Collector) -> None:
    await run(tmp_path, attempts=2)
    points = collector.metrics["assay_attempts"].sum.data_points
    assert [(attributes(one), one.as_double or one.as_int) for one in points] == [({"outcome": "pass"}, 4)]
    phases = {attributes(one)["phase"]: one for one in collector.metrics["assay_phase_seconds"].histogram.data_points}
    assert set(phases) == {"open", "agent", "settle", "judge", "commit"}
    assert all(one.count == 4 == sum(one.bucket_counts) for one in phases.values())


async def test_failures_are_marked_and_trials_of_an_attempt_are_one_trace(tmp_path: Path, collector: Collector) -> None:
    async def fails(attempt: Attempt) -> None:
        raise OSError(f"no {SECRET}")

    await run(tmp_path, RunParts(agent=fails, objects=("agent",)), agent="fails")
    roots = collector.named("attempt")
    assert {attributes(span)["error.type"] for span in roots} == {"agent"}
    assert {span.status.code for span in roots} == {2}
    assert SECRET.encode() not in b"".join(span.SerializeToString() for span in collector.spans)


async def test_headers_service_name_and_sampler_are_those_of_the_variables(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    await run(tmp_path)
    assert {headers["x-team"] for headers in collector.headers} == {"blue"}
    assert {one["service.name"] for one in collector.resources} == {"nightly"}
    assert {one["deployment.environment.name"] for one in collector.resources} == {"ci"}
    assert collector.metrics == {}


async def test_a_disabled_sdk_sends_nothing(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    await run(tmp_path)
    assert (collector.requests, len(outcomes(tmp_path))) == (0, 2)


@pytest.mark.parametrize(("name", "value"), [
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ("OTEL_TRACES_EXPORTER", "zipkin"),
    ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
])  # fmt: skip
async def test_an_unsupported_variable_is_an_error_before_anything_starts(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=name):
        await run(tmp_path)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("how", ["absent", "refuses", "redirects", "hangs"])
async def test_a_failing_collector_neither_fails_nor_delays_a_run(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.rollout.telemetry.otel.CLOSE_S", 1.0)
    status = {"refuses": 503, "redirects": 302}.get(how, 200)
    with Collector(status, delay_s=30.0 if how == "hangs" else 0.0) as failing:
        url = "http://127.0.0.1:9" if how == "absent" else failing.url
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        began = time.monotonic()
        tally = await run(tmp_path)
        assert time.monotonic() - began < 15
    assert {outcome for outcome, _ in outcomes(tmp_path).values()} == {"pass"}
    spans = [warning for warning in tally.warnings if "spans did not reach the collector" in warning]
    assert len(spans) == 1
    lost, of = spans[0].removeprefix("otel: ").split(" spans")[0].split(" of ")
    assert int(lost) == int(of) >= 12


async def test_a_full_queue_drops_spans_and_counts_them(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    collector.delay_s = 0.3
    tally = await run(tmp_path, attempts=4)
    (warning,) = [one for one in tally.warnings if "spans did not reach" in one]
    lost, of = map(int, warning.removeprefix("otel: ").split(" spans")[0].split(" of "))
    assert 0 < lost < of
    assert of - lost == len(collector.spans)


async def test_an_interrupted_run_marks_its_trial_and_a_resumed_one_is_traced(
    tmp_path: Path, collector: Collector
) -> None:
    async def waits(attempt: Attempt) -> None:
        await asyncio.sleep(0.0 if resumed else 3600.0)
        attempt.finish("done")

    resumed = False
    parts = RunParts(agent=waits, objects=("agent",))
    running = asyncio.create_task(run(tmp_path, parts, agent="waits"))
    await asyncio.sleep(1.0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert {attributes(span).get("assay.interrupted") for span in collector.named("attempt")} == {True}
    collector.spans.clear()
    resumed = True
    await resume_run("r", Settings(tmp_path, tmp_path), Tally(), parts=parts)
    assert {attributes(span)["assay.retry"] for span in collector.named("attempt")} == {1}


async def test_the_record_is_the_same_with_and_without(tmp_path: Path, collector: Collector) -> None:
    await run(tmp_path / "on")
    await run(tmp_path / "off", otel=False)
    assert outcomes(tmp_path / "on") == outcomes(tmp_path / "off")


@pytest.mark.long
def test_without_the_option_nothing_is_imported(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from assay.rollout import RunConfig, Tally, start_run; from assay.settings import Settings\n"
        f"config = RunConfig(tasks=({TASKS!r},), agent='expert', run='r')\n"
        "asyncio.run(start_run(config, Settings(Path('.'), Path('.')), Tally()))\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'google', 'requests'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "sys.modules['opentelemetry.exporter'] = None\n"
        "from assay.rollout import RunConfig, Tally, start_run; from assay.settings import Settings\n"
        f"config = RunConfig(tasks=({TASKS!r},), agent='expert', run='r', otel=True)\n"
        "asyncio.run(start_run(config, Settings(Path('.'), Path('.')), Tally()))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "pip install 'assay[otel]'" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "runs").exists()
