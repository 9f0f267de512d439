"""Distils rules by a model from verified contrasts; what the model says is only a proposal.

The model is shown judged attempts, step by step, and must cite for each rule the steps that it rests on with words that
stand there. A rule is kept only if it is one short line, cites a step of a verified pass, every citation resolves, and
the line holds no text of the tasks, their tests or their solutions. What was asked and answered is kept beside the
skill.

Not covered: whether a cited step supports the rule. That is what the trial decides.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import StoreError, UserError, boundary
from assay.gateway.interface import ModelBackend, ModelRequest
from assay.records import Step, Trajectory, canonical_bytes, digest_bytes
from assay.settings import Settings

from .evidence import ContrastAttempt, read_judged
from .folder import SKILL_FILE, SkillFolder
from .front_matter import render_front_matter
from .leaks import TaskSecrets, scan_leaks
from .records import Claim, EvidenceRef

MOST_RULES, MOST_ATTEMPTS = 12, 8
RULE_CHARACTERS, _LEAST_QUOTE = 300, 8
_TEXT, _OUTPUT, _ALL = 400, 800, 60_000
_SPACE = re.compile(r"\s+")
_ASKED = (
    "You are shown attempts of an agent at tasks, each marked as passed or failed by a verifier. Write rules that "
    "would make passes more likely at other tasks of this kind: what passing attempts did that failing ones did not. "
    "Name no task, no file name or value of one task, no test and no answer. Each rule is one sentence, and cites at "
    "least one step of a passing attempt, with a quote of at least 8 characters copied from that step. Answer with a "
    'JSON object alone: {"description": "what the skill does and when to use it", "rules": [{"text": "...", "cites": '
    '[{"attempt": '
    f'"A1", "step": 3, "quote": "..."}}]}}]}}, with at most {MOST_RULES} rules.'
)


class RuleCitation(msgspec.Struct, frozen=True):
    """A step that a proposed rule rests on."""

    attempt: str
    step: int
    quote: str


class ProposedRule(msgspec.Struct, frozen=True):
    """A rule as the model wrote it."""

    text: str
    cites: tuple[RuleCitation, ...] = ()


class _Answer(msgspec.Struct, frozen=True):
    rules: tuple[ProposedRule, ...]
    description: str = ""


class RefusedRule(NamedTuple):
    """A rule of the model that is not kept."""

    text: str
    reason: str


class ModelSkill(NamedTuple):
    """The result of a distillation by a model."""

    skill: SkillFolder
    claims: tuple[Claim, ...]
    refused: tuple[RefusedRule, ...]
    passing: int
    failing: int
    left_out: int
    """Attempts that are doubted, unjudged or broken."""
    exchange: bytes
    """Request and reply, as JSON."""


async def distil_by_model(name: str, runs: Sequence[str], backend: ModelBackend, settings: Settings) -> ModelSkill:
    """Asks a model for rules and keeps those whose citations hold.

    Raises:
        UserError: No attempt passed, the answer cannot be read, or no rule is kept.
        ProviderError: The model server failed permanently.
        StoreError: A run is not what was recorded.
    """
    judged, secrets, left_out = read_judged(runs, settings)
    if not any(one.passed for one in judged):
        raise UserError(f"no attempt of {', '.join(runs)} is an undoubted pass, and rules are distilled from passes")
    shown = choose_attempts(judged)
    messages = [{"role": "system", "content": _ASKED}, {"role": "user", "content": render_attempts(shown)}]
    sampling: dict[str, Any] = {"temperature": 0.0, "response_format": {"type": "json_object"}}
    reply = await backend.complete(ModelRequest(messages, [], sampling))
    content = reply.message.get("content")
    answer = _read_answer(content if isinstance(content, str) else "")
    claims, refused = check_rules(answer.rules, shown, secrets)
    if not claims:
        raise UserError(
            f"the model {reply.model} gave no rule that can be kept: "
            + ("; ".join(f"{one.text[:60]!r}: {one.reason}" for one in refused[:5]) or "its answer has none")
        )
    skill = _write_skill(name, answer.description, claims, secrets)
    passing = sum(one.passed for one in judged)
    exchange = canonical_bytes({"model": reply.model, "messages": messages, "reply": reply.message})
    return ModelSkill(skill, claims, refused, passing, len(judged) - passing, left_out, exchange)


def keep_exchange(folder: Path, exchange: bytes) -> None:
    """Writes what was asked and answered to a file named by its digest."""
    digest = digest_bytes(exchange)
    with boundary(StoreError, f"writing {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{digest.partition(':')[2][:32]}.json").write_bytes(exchange)


def choose_attempts(judged: Sequence[ContrastAttempt]) -> list[ContrastAttempt]:
    """Returns attempts to show: pairs of a pass and a fail at one task first, then passes; the shortest of each."""
    by_task: dict[str, dict[bool, list[ContrastAttempt]]] = defaultdict(lambda: {True: [], False: []})
    for one in sorted(judged, key=lambda one: (len(one.trajectory.steps), one.trajectory.attempt)):
        by_task[one.trajectory.task][one.passed].append(one)
    pairs = [(some[True][0], some[False][0]) for some in by_task.values() if some[True] and some[False]]
    chosen = [one for pair in pairs for one in pair][:MOST_ATTEMPTS]
    rest = [one for outcome in (True, False) for some in by_task.values() for one in some[outcome][:1]]
    chosen += [one for one in rest if one not in chosen][: MOST_ATTEMPTS - len(chosen)]
    return chosen


def render_attempts(shown: Sequence[ContrastAttempt]) -> str:
    """Returns the attempts as the model reads them; the longest are cut to share 60,000 characters equally."""
    share = _ALL // max(1, len(shown))
    return "\n\n".join(
        f"Attempt A{number} ({'passed' if one.passed else 'failed'})\n{_render_steps(one.trajectory)[:share]}"
        for number, one in enumerate(shown, 1)
    )


def _render_steps(trajectory: Trajectory) -> str:
    lines = []
    for step in trajectory.steps:
        if step.actor == "agent":
            lines += [f"step {step.index}: {text}" for text in _step_parts(step)]
    return "\n".join(lines)


def _step_parts(step: Step) -> list[str]:
    """Returns the texts of a step that are shown, and that quotes may be taken from."""
    parts = [f"says {_cut(step.message, _TEXT)}"] if step.message else []
    parts += [f"calls {call.name} {_cut(call.arguments, _TEXT)}" for call in step.tool_calls]
    return parts + [f"sees {_cut(seen.content + seen.stderr, _OUTPUT)}" for seen in step.observations]


def _cut(text: str, most: int) -> str:
    joined = _SPACE.sub(" ", text).strip()
    return joined if len(joined) <= most else f"{joined[: most // 2]} ... {joined[-most // 2 :]}"


def _read_answer(text: str) -> _Answer:
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.strip("`").removeprefix("json").strip()
    try:
        return msgspec.json.decode(stripped, type=_Answer)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise UserError(f"the model's answer is not a JSON object of rules: {exc}") from exc


def check_rules(
    rules: Sequence[ProposedRule], shown: Sequence[ContrastAttempt], secrets: Sequence[TaskSecrets]
) -> tuple[tuple[Claim, ...], tuple[RefusedRule, ...]]:
    """Returns a claim for each rule that holds, and the refused ones with their reasons."""
    named = {f"A{number}": one for number, one in enumerate(shown, 1)}
    claims: dict[str, Claim] = {}
    refused: list[RefusedRule] = []
    for rule in rules:
        text = rule.text.strip().removeprefix("- ")
        reason = _rule_problem(text, rule.cites, named, secrets)
        if reason is None and len(claims) >= MOST_RULES:
            reason = f"more than {MOST_RULES} rules"
        if reason is not None:
            refused.append(RefusedRule(text[:RULE_CHARACTERS], reason))
        else:
            line = f"- {text}"
            claims.setdefault(line, Claim(line, "text", _evidence(rule.cites, named)))
    return tuple(claims.values()), tuple(refused)


def _rule_problem(
    text: str, cites: Sequence[RuleCitation], named: Mapping[str, ContrastAttempt], secrets: Sequence[TaskSecrets]
) -> str | None:
    if not text or len(text) > RULE_CHARACTERS or not text.isprintable():
        return f"a rule is one printable line of at most {RULE_CHARACTERS} characters"
    for cite in cites:
        problem = _cite_problem(cite, named)
        if problem is not None:
            return problem
    if not any(named[cite.attempt].passed for cite in cites):
        return "it cites no step of a passing attempt"
    leaks = scan_leaks(SkillFolder("rule", {SKILL_FILE: text.encode()}), secrets)
    return f"it holds a {leaks[0]}" if leaks else None


def _cite_problem(cite: RuleCitation, named: Mapping[str, ContrastAttempt]) -> str | None:
    one = named.get(cite.attempt)
    if one is None:
        return f"no attempt is called {cite.attempt[:20]!r}"
    step = next((s for s in one.trajectory.steps if s.index == cite.step and s.actor == "agent"), None)
    if step is None:
        return f"{cite.attempt} has no step {cite.step} of the agent"
    quote = _SPACE.sub(" ", cite.quote).strip()
    if len(quote) < _LEAST_QUOTE:
        return f"a quote has at least {_LEAST_QUOTE} characters"
    if not any(quote in part for part in _step_parts(step)):
        return f"step {cite.step} of {cite.attempt} does not hold {quote[:60]!r}"
    return None


def _evidence(cites: Sequence[RuleCitation], named: Mapping[str, ContrastAttempt]) -> tuple[EvidenceRef, ...]:
    """Returns the cited steps of passing attempts; those of failing ones are the contrast."""
    steps: dict[str, set[int]] = defaultdict(set)
    for cite in cites:
        if named[cite.attempt].passed:
            steps[cite.attempt].add(cite.step)
    sources = {name: named[name].trajectory for name in steps}
    return tuple(
        EvidenceRef(one.run, one.attempt, one.chain, one.head, tuple(sorted(steps[name])))
        for name, one in sorted(sources.items())
    )


def _write_skill(name: str, description: str, claims: Sequence[Claim], secrets: Sequence[TaskSecrets]) -> SkillFolder:
    shown = _SPACE.sub(" ", description).strip()[:1024]
    leaks = scan_leaks(SkillFolder("description", {SKILL_FILE: shown.encode()}), secrets)
    if not shown.isprintable() or len(shown) < _LEAST_QUOTE or leaks:
        shown = f"Rules for tasks like those of the skill {name}, distilled from verified attempts."
    front = render_front_matter(
        {"name": name, "description": shown, "metadata": {"distilled-by": "a model, citations checked"}}
    )
    body = "\n".join(claim.text for claim in claims)
    return SkillFolder(name, {SKILL_FILE: f"{front}\n# {name}\n\n## Rules\n\n{body}\n".encode()})
