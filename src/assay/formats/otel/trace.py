"""Reads one trace of the conventions for generative AI (`gen_ai.*`): model spans are calls, the messages that each adds
are turns, tool spans are executions, `gen_ai.evaluation.result` events are verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.otel.attributes import COST
from assay.formats.otel.messages import REST, parse_objects, text_of, to_chat
from assay.formats.otel.spans import TraceSpan, otlp_span, with_attributes
from assay.formats.otel.writer import INPUT, OUTPUT
from assay.formats.shared.builder import Origin, tool_call
from assay.formats.shared.conversations import MessageTree
from assay.formats.shared.messages import actor_of, chat_calls, content_text, render_chat_message
from assay.formats.shared.round_trip_builder import RoundTripBuilder, count_or_none, number, text_or_none
from assay.records import (
    AttemptEnded,
    Evidence,
    EvidenceAdded,
    ModelCall,
    Noted,
    Observation,
    ToolCall,
    Usage,
    VerdictStatus,
    canonical_bytes,
)

_ASKED, _MODEL = "gen_ai.request.", "gen_ai.request.model"
_MODELS = ("chat", "generate_content", "text_completion")
_SYSTEM, _TOOLS = "gen_ai.system_instructions", "gen_ai.tool.definitions"
_PASS, _FAIL = ("pass", "passed", "correct", "true", "yes"), ("fail", "failed", "incorrect", "false", "no")


class TraceReader:
    """Reads the spans of one trace, in any order."""

    def __init__(self, spans: list[TraceSpan], origin: Origin, reading: ImportContext) -> None:
        self._builder = RoundTripBuilder(origin, reading, render_chat_message)
        self._spans = spans
        self._lines = MessageTree()
        self._numbers: dict[bytes, int] = {}
        self._about: list[dict[str, Any]] = []
        self._known: set[str] = set()
        self._added: Counter[int] = Counter()
        """How often each message became a turn."""

    def read(self) -> ImportedTrajectory:
        order = sorted(range(len(self._spans)), key=lambda n: (self._spans[n].start or 0.0, n))
        for at in order:
            span = self._spans[at]
            operation = span.attributes.get("gen_ai.operation.name")
            if operation in _MODELS:
                self._model(at, span)
            elif operation == "execute_tool":
                self._tool(at, span)
            else:
                self._builder.add(Noted("otel.span", self._source_span(at, span), span.start))
            self._judge(span)
        return self._finish()

    def _source_span(self, at: int, span: TraceSpan, *without: str) -> dict[str, Any]:
        """Returns a span without attributes that a record holds, with its position in the trace."""
        if span.about not in self._about:
            self._about.append(span.about)
        raw = with_attributes(span.raw, span.form, dict.fromkeys(without)) if without else span.raw
        return {"at": at, "span": raw, "form": span.form, "about": self._about.index(span.about)}

    def _number(self, chat: dict[str, Any]) -> int:
        key = blake2b(canonical_bytes(chat), digest_size=16).digest()
        return self._numbers.setdefault(key, len(self._numbers))

    def _model(self, at: int, span: TraceSpan) -> None:
        attributes = span.attributes
        prompt = [chat for message in parse_objects(attributes.get(INPUT)) for chat in to_chat(message)]
        system = parse_objects(attributes.get(_SYSTEM))
        if system and not any(c.get("role") == "system" for c in prompt):
            text = "\n".join(str(part.get("content") or "") for part in system)
            prompt.insert(0, {"role": "system", "content": text, REST: {"with_previous": True}})
        outputs = parse_objects(attributes.get(OUTPUT))
        answer = _answer(outputs[0]) if outputs else None
        call = self._call(at, span, prompt, answer, outputs)
        self._builder.add_call(call)
        self._add_prompt(prompt, call)
        if answer is not None:
            self._added[self._number(answer)] += 1
        made = chat_calls(answer) if answer is not None else ()
        self._known |= {c.id for c in made}
        self._builder.add_step(
            "agent",
            content_text(answer.get("content")) if answer is not None else None,
            reasoning=text_or_none(answer.get("reasoning_content")) if answer is not None else None,
            tool_calls=made,
            call=call.id,
            started=span.start,
            ended=span.end,
            extra={"name": attributes.get("gen_ai.agent.name")},
        )

    def _add_prompt(self, prompt: list[dict[str, Any]], call: ModelCall) -> None:
        """Adds the messages of a prompt that no turn has yet.

        A prompt that differs early (its system prompt names the time, another agent goes on) repeats the messages of
        earlier calls: one is new if the prompt has it more often than it was added.
        """
        met: Counter[int] = Counter()
        for position, chat in enumerate(prompt):
            number_ = self._number(chat)
            met[number_] += 1
            echo = chat.get("role") == "assistant" and call.parent
            if position >= call.shared_messages and not echo and met[number_] > self._added[number_]:
                self._added[number_] += 1
                self._add_message(chat)

    def _call(
        self, at: int, span: TraceSpan, prompt: list[dict[str, Any]], answer: dict[str, Any] | None, outputs: list[Any]
    ) -> ModelCall:
        attributes, id_ = span.attributes, f"s{at}"
        said = None if answer is None else self._number(answer)
        shared = self._lines.add(id_, [self._number(c) for c in prompt], said)
        held = [name for name in (INPUT, OUTPUT) if isinstance(attributes.get(name), str)]
        request: dict[str, Any] = {"messages": prompt[shared.messages :], REST: self._source_span(at, span, *held)}
        request[REST]["text"] = held
        tools = parse_objects(attributes.get(_TOOLS))
        request |= {"tools": tools} if tools else {}
        choices: list[dict[str, Any]] = [{"index": n, "message": _answer(m)} for n, m in enumerate(outputs)]
        for choice, message in zip(choices, outputs, strict=True):
            choice |= {"finish_reason": message["finish_reason"]} if "finish_reason" in message else {}
        error = attributes.get("error.type") or _status(span)
        return ModelCall(
            id=id_,
            dialect=text_or_none(attributes.get("gen_ai.provider.name", attributes.get("gen_ai.system"))) or "unknown",
            model=text_or_none(attributes.get("gen_ai.response.model", attributes.get("gen_ai.request.model"))) or "",
            request=request,
            response={"model": attributes.get("gen_ai.response.model"), "choices": choices}
            if outputs or not error
            else None,
            usage=Usage(
                count_or_none(
                    attributes.get("gen_ai.usage.input_tokens", attributes.get("gen_ai.usage.prompt_tokens"))
                ),
                count_or_none(
                    attributes.get("gen_ai.usage.output_tokens", attributes.get("gen_ai.usage.completion_tokens"))
                ),
                count_or_none(attributes.get("gen_ai.usage.cache_read.input_tokens")),
                count_or_none(attributes.get("gen_ai.usage.reasoning.output_tokens")),
            ),
            cost_usd=number(attributes.get(COST)),
            sampling={k.removeprefix(_ASKED): v for k, v in attributes.items() if k.startswith(_ASKED) and k != _MODEL},
            error=None if not error else str(error),
            started=span.start,
            ended=span.end,
            **shared.fields(),
        )

    def _add_message(self, chat: dict[str, Any]) -> None:
        role = str(chat.get("role"))
        if role == "tool":
            text = content_text(chat.get("content")) or ""
            self._builder.add_result(Observation(text, text_or_none(chat.get("tool_call_id"))))
            return
        self._builder.add_step(
            actor_of(role),
            content_text(chat.get("content")),
            tool_calls=chat_calls(chat),
            extra={} if role in ("user", "assistant") else {"role": role},
        )

    def _tool(self, at: int, span: TraceSpan) -> None:
        attributes = span.attributes
        id_ = text_or_none(attributes.get("gen_ai.tool.call.id"))
        name = str(attributes.get("gen_ai.tool.name") or "")
        call = tool_call(id_ or f"span-{span.id}", name, attributes.get("gen_ai.tool.call.arguments"))
        error = attributes.get("error.type") or _status(span)
        result = attributes.get("gen_ai.tool.call.result")
        data: dict[str, Any] = {"tool": name, "call_id": call.id, "arguments": call.parsed or call.arguments}
        data |= {"stdout": text_of(result)} if result is not None else {}
        data |= {"error": str(error)} if error else {}
        took = span.end - span.start if span.start is not None and span.end is not None else None
        data |= (
            {"duration_s": took, REST: self._source_span(at, span)}
            if took is not None
            else {REST: self._source_span(at, span)}
        )
        self._builder.add(EvidenceAdded(Evidence(f"t{at}", "audit", "execution", data, at=span.start)))
        if call.id not in self._known:  # the model's own words were not recorded: that it called is known from here
            seen = Observation(text_of(result), call.id, error=bool(error), duration_s=took)
            self._attach_unrecorded(call, () if result is None and not error else (seen,))

    def _attach_unrecorded(self, call: ToolCall, results: tuple[Observation, ...]) -> None:
        step = next((s for s in reversed(self._builder.steps) if s.actor == "agent"), None)
        if step is None or self._builder.is_full(step):
            self._builder.add_step("agent", None, tool_calls=(call,), observations=results)
        else:
            calls, observations = (*step.tool_calls, call), (*step.observations, *results)
            self._builder.change_step(step, tool_calls=calls, observations=observations)

    def _judge(self, span: TraceSpan) -> None:
        for attributes in _evaluations(span):
            value, label = (
                number(attributes.get("gen_ai.evaluation.score.value")),
                attributes.get("gen_ai.evaluation.score.label"),
            )
            name = str(attributes.get("gen_ai.evaluation.name") or "score")
            word = str(label).lower()
            inside = value is not None and 0 <= value <= 1
            status: VerdictStatus = "unknown"
            if word in _PASS or (word not in _FAIL and inside and value == 1):
                status = "pass"
            elif word in _FAIL or inside:
                status = "fail"
            values = {name: value} if value is not None else {}
            fact = self._builder.add_evidence("reward", {"values": values, "evaluation": attributes})
            why = text_or_none(attributes.get("gen_ai.evaluation.explanation"))
            reason = why or f"`{name}` is {value if label is None else label} as recorded by OpenTelemetry"
            if word in {*_PASS, *_FAIL} and value is not None and not inside:  # the label decides on any scale
                self._builder.remark("", f"the score {value:g} of `{name}` is outside [0, 1]: its label decides")
                value = None
            self._builder.add_verdict(status, value, reason, (fact,), values)

    def _finish(self) -> ImportedTrajectory:
        spans = self._spans
        ids = {span.id for span in spans}
        root = next((s for s in spans if s.parent not in ids), spans[0])
        agent = next((a for s in spans if (a := s.attributes.get("gen_ai.agent.name"))), None)
        models = [m for s in spans if (m := s.attributes.get("gen_ai.request.model"))]
        error = root.attributes.get("error.type") or _status(root)
        self._builder.fields = {"about": self._about, "trace": root.trace}
        task = text_or_none(root.attributes.get("assay.task"))
        times = [s.end for s in spans if s.end is not None]
        return self._builder.finish(
            f"trace {root.trace}",
            ended=AttemptEnded(broke="environment" if error else None, error=str(error) if error else None,
                               at=max(times) if times else None),
            agent=str(agent or "unknown"),
            model=str(models[0]) if models else None,
            at=root.start,
            **({"task": task} if task else {}),
        )  # fmt: skip


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    """Converts an output to the form that the next input repeats, without its finish reason."""
    return to_chat({key: value for key, value in message.items() if key != "finish_reason"})[0]


def _status(span: TraceSpan) -> str | None:
    """Returns a span's error message; None where it has no error."""
    status = span.raw.get("status")
    held = status if isinstance(status, dict) else {}
    code = held.get("code", held.get("status_code"))
    failed = code in (2, "STATUS_CODE_ERROR", "ERROR", "StatusCode.ERROR")
    return str(held.get("message") or held.get("description") or "error") if failed else None


def _evaluations(span: TraceSpan) -> Iterator[dict[str, Any]]:
    if "gen_ai.evaluation.name" in span.attributes:
        yield {k: v for k, v in span.attributes.items() if k.startswith("gen_ai.evaluation.")}
    events = span.raw.get("events")
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("name") == "gen_ai.evaluation.result":
            if span.form == "flat":
                held = event.get("attributes")
                yield held if isinstance(held, dict) else {}
            else:
                read = otlp_span({"traceId": "", "spanId": "", "attributes": event.get("attributes")}, {})
                yield read.attributes if read is not None else {}
