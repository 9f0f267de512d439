"""The battery as data: the attempts of a task in order, each with the verdict of a sound verifier.

Invariant: the same task, configuration and knowledge give the same list. A probe that cannot be tried is listed with
the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from assay.agents.calls import CallsAgent
from assay.agents.cheats import CHEATS
from assay.agents.cheats.interface import CheatAgent, Knowledge
from assay.agents.null import NullAgent
from assay.agents.nulls import NULLS
from assay.agents.oracle import OracleAgent
from assay.agents.rewrite import RewriteAgent
from assay.environments.interface import WorkspaceSpec
from assay.environments.services.conversation import SEND
from assay.environments.services.plans import ALL_ACTS, ONE_CALL
from assay.records import Check, Limits, ToolCall, canonical_bytes
from assay.rollout.attempt.variation import Variation
from assay.rollout.plan import PlannedAttempt, Verification, attempt_seed, merge_limits
from assay.tasks import LoadedTask
from assay.verify.service_checks import CommunicatedCheck

from .bundles import bundle_cheats
from .config import AdmitConfig
from .knowledge import SolutionRecord
from .probe import Group, Probe, SkippedProbe
from .rewrites import Rewrite
from .sensitivity import mutants
from .strictness import variants
from .variations import CIRCUMSTANCES, CONTROLS, TOGETHER, Circumstance, CircumstanceOracle, circumstances, combine
from .worlds import WorldHooks

FIRST, CLOCK = "oracle.1", "oracle.clock"
BLIND = "cheat.blind-replay"
SHORTCUT = "cheat.shortcut"
LEFT_OUT = "left out by --quick"
NO_SANDBOX = "the task's world runs no agent code: this needs a sandbox"
ATTEMPTS = 38
"""Planned attempts of a task's battery. Explicit limits of mutants or variants, or shared attempts that do not clear
their members, may exceed it."""
SCREENED: frozenset[Group] = frozenset({"null", "cheat", "sensitivity"})
"""Attempts that should fail: judges that judge many of them may find that they do."""
_MESSAGE = {"text": " ".join(f"Item{number} is {number}." for number in range(40))}
"""Each number between other words, and as few as an honest agent may say: a small number is not worth a task alone."""
_ALL_NUMBERS = (ToolCall("c0", SEND, canonical_bytes(_MESSAGE).decode(), _MESSAGE),)
NULL_WORDS = {
    "empty": "a plausible answer with nothing in it",
    "comments": "only comments or blank lines",
    "crash": "a crash at once",
}


class _Plan(NamedTuple):
    config: AdmitConfig
    task: LoadedTask

    @property
    def main(self) -> Verification:
        return self.config.verifications[0]


def has_oracle(loaded: LoadedTask) -> bool:
    """Returns whether the task brings a reference solution."""
    named = [step for step in loaded.steps if step.name]
    if named:
        return all(step.oracle is not None for step in named)
    return loaded.task.oracle is not None and bool(loaded.task.oracle.command)


def plan_attempt(probe: Probe, loaded: LoadedTask, number: int, config: AdmitConfig) -> PlannedAttempt:
    """Returns the attempt of a probe; `number` is its position in the task's list."""
    task = loaded.task
    adversary = Limits(wall_s=config.adversary_s) if probe.group in ("null", "cheat") else Limits()
    extra_config = {
        "probe": probe.name,
        "group": probe.group,
        "wanted": probe.wanted,
        "verification": probe.verification,
    }
    if probe.circumstance is not None:
        extra_config["circumstance"] = probe.circumstance
    return PlannedAttempt(
        id=f"{task.id}@{probe.id}",
        loaded=loaded,
        number=number,
        seed=attempt_seed(config.seed, task.digest, probe.id, 0),
        limits=merge_limits(merge_limits(config.limits, task.limits), adversary),
        agent=probe.agent,
        verification=probe.verification,
        variation=msgspec.structs.replace(probe.variation, counted=True),
        extra_config=extra_config,
        screened=probe.group in SCREENED,
    )


def oracle_probes(config: AdmitConfig) -> Iterator[Probe]:
    """Yields the reference solution's attempts, on which everything else depends; the first is judged by default and
    its cost measured."""
    about = "the reference solution"
    variation = Variation("measured", measured=True)
    yield Probe(FIRST, "completeness", "pass", OracleAgent(), about, variation=variation)
    for verification in config.verifications:
        first = 2 if verification == "default" else 1
        last = config.n if verification == config.verifications[0] else 1
        for number in range(first, last + 1):
            yield Probe(f"oracle.{number}", "completeness", "pass", OracleAgent(), about, verification)


def sandbox_probes(
    loaded: LoadedTask, config: AdmitConfig, spec: WorkspaceSpec, solution: SolutionRecord | None, cache: Path
) -> Iterator[Probe | SkippedProbe]:
    """Yields the probes that follow `oracle_probes` for a task in a sandbox."""
    plan = _Plan(config, loaded)
    knowledge = solution.knowledge if solution is not None else Knowledge(spec.workdir)
    planned = list(_circumstances(plan, spec, cache)) if has_oracle(loaded) else []
    for verification in config.verifications:
        planned += _nulls(knowledge, verification, shaped=solution is not None)
        planned += _cheats(plan, knowledge, verification)
    yield from planned
    before = sum(isinstance(one, Probe) and one.verification == plan.main for one in planned)
    yield from _rewrites(plan, solution, before + config.n)


def _circumstances(plan: _Plan, spec: WorkspaceSpec, cache: Path) -> Iterator[Probe | SkippedProbe]:
    found = list(_each_circumstance(plan, spec, cache))
    yield from (one for one in found if isinstance(one, SkippedProbe))
    probes = [one for one in found if isinstance(one, Probe)]
    controls = tuple(probe for probe in probes if probe.name.removeprefix("oracle.") in CONTROLS)
    for probe in probes:
        # The library that shifts clocks breaks some programs by itself.
        if f"{probe.name}-control" in {control.name for control in controls}:
            yield probe._replace(members=controls)
    rest = [probe for probe in probes if not probe.name.startswith(f"{CLOCK}")]
    if len(rest) < 2:
        yield from rest
    else:
        yield _under_all(plan, rest, circumstances(spec, cache))


def _under_all(plan: _Plan, probes: Sequence[Probe], available: Iterable[Circumstance]) -> Probe:
    names = {probe.name for probe in probes}
    together = combine([one for one in available if f"oracle.{one.name}" in names])
    about = "the reference solution under all other circumstances at once"
    return Probe(
        f"oracle.{TOGETHER}", "completeness", None, CircumstanceOracle(*together.parts), about, plan.main,
        together.variation, circumstance=TOGETHER, members=tuple(probes),
    )  # fmt: skip


def _each_circumstance(plan: _Plan, spec: WorkspaceSpec, cache: Path) -> Iterator[Probe | SkippedProbe]:
    for one in circumstances(spec, cache):
        name = f"oracle.{one.name}"
        if plan.config.quick:
            yield SkippedProbe(name, "completeness", LEFT_OUT)
        elif one.missing is not None:
            yield SkippedProbe(name, "completeness", one.missing)
        elif not one.as_always:
            about = f"the reference solution with {(CIRCUMSTANCES | CONTROLS)[one.name]}"
            wanted: Literal["pass"] | None = None if one.name in CONTROLS else "pass"
            agent = CircumstanceOracle(one)
            yield Probe(name, "completeness", wanted, agent, about, plan.main, one.variation, circumstance=one.name)


def _nulls(knowledge: Knowledge, verification: Verification, *, shaped: bool) -> Iterator[Probe | SkippedProbe]:
    yield Probe("null.nothing", "null", "fail", NullAgent(), "nothing done", verification)
    for name, kind in NULLS.items():
        agent = kind(knowledge)
        if not shaped:
            yield SkippedProbe(f"null.{name}", "null", "without a reference solution the form of an answer is unknown")
        elif name != "crash" and not any(True for _ in agent.files()):
            yield SkippedProbe(f"null.{name}", "null", "solving touches no file that such an answer can be made of")
        else:
            yield Probe(f"null.{name}", "null", "fail", agent, NULL_WORDS[name], verification)


def _cheats(plan: _Plan, knowledge: Knowledge, verification: Verification) -> Iterator[Probe | SkippedProbe]:
    found = list(_each_cheat(plan, knowledge, verification))
    yield from bundle_cheats([one for one in found if isinstance(one, Probe)], knowledge, verification)
    yield from (one for one in found if isinstance(one, SkippedProbe))


def _each_cheat(plan: _Plan, knowledge: Knowledge, verification: Verification) -> Iterator[Probe | SkippedProbe]:
    for cheat in CHEATS:
        name = f"cheat.{cheat.name}"
        why_not = cheat.applies(knowledge)
        if plan.config.quick and not cheat.quick:
            yield SkippedProbe(name, "cheat", LEFT_OUT)
        elif why_not is not None:
            yield SkippedProbe(name, "cheat", why_not)
        else:
            yield Probe(name, "cheat", "fail", CheatAgent(cheat, knowledge), cheat.exploits, verification)


def _rewrites(plan: _Plan, solution: SolutionRecord | None, planned: int) -> Iterator[Probe | SkippedProbe]:
    left_out = LEFT_OUT if plan.config.quick else "asked for none"
    room = ATTEMPTS - planned - 1  # the control
    variants_most = plan.config.most_variants(room)
    most: dict[Group, int] = {
        "sensitivity": plan.config.most_mutants(room - variants_most),
        "strictness": variants_most,
    }
    groups = [group for group in most if most[group]]
    yield from (SkippedProbe(group, group, left_out) for group in most if not most[group])
    if solution is None or solution.problem is not None:
        reason = solution.problem if solution is not None else None
        lacking = reason or "the reference solution has no recorded state"
        yield from (SkippedProbe(group, group, lacking) for group in groups)
        return
    if not groups:
        return
    config = {"name": "oracle.files", "operator": "none"}
    control = RewriteAgent("oracle-files", solution.state, {}, config)
    yield Probe("oracle.files", "completeness", None, control, "the files that the solution left", plan.main)
    knowledge, seed = solution.knowledge, plan.config.seed
    rewrites = (
        *(
            mutants(knowledge, seed=seed, most=most["sensitivity"], verifier=solution.verifier)
            if most["sensitivity"]
            else ()
        ),
        *(variants(knowledge, seed=seed, most=most["strictness"]) if most["strictness"] else ()),
    )
    for group in groups:
        mine = [rewrite for rewrite in rewrites if rewrite.group == group]
        if not mine:
            yield SkippedProbe(group, group, "the solution's files give nothing to change in this way")
        for rewrite in mine:
            yield _rewritten(plan, solution, rewrite)


def _rewritten(plan: _Plan, solution: SolutionRecord, rewrite: Rewrite) -> Probe:
    config = {"name": rewrite.name, "operator": rewrite.operator, "diff": rewrite.diff}
    mutant = rewrite.group == "sensitivity"
    agent = RewriteAgent("mutant" if mutant else "variant", solution.state, rewrite.files, config)
    about = f"the solution changed by {rewrite.operator}" if mutant else f"the solution with {rewrite.operator}"
    wanted: Literal["pass"] | None = None if mutant else "pass"
    return Probe(rewrite.name, rewrite.group, wanted, agent, about, plan.main, rewrite=rewrite)


def world_probes(
    config: AdmitConfig, hooks: WorldHooks, checks: Sequence[Check] = ()
) -> Iterator[Probe | SkippedProbe]:
    """Yields all probes of a task in an in-process world; `checks` are the task's."""
    if hooks.oracle is None:
        yield SkippedProbe("oracle", "completeness", "the world gives no `oracle`")
    else:
        for number in range(1, config.n + 1):
            agent = CallsAgent("oracle", hooks.oracle)
            yield Probe(f"oracle.{number}", "completeness", "pass", agent, "the reference solution")
    yield from (SkippedProbe(f"oracle.{name}", "completeness", NO_SANDBOX) for name in CIRCUMSTANCES)
    yield Probe("null.nothing", "null", "fail", NullAgent(), "nothing done")
    if hooks.null is None:
        yield SkippedProbe("null", "null", "the world gives no `null`")
    for name, calls in (hooks.null or {}).items():
        yield Probe(f"null.{name}", "null", "fail", CallsAgent("null", calls), f"calls that do nothing ({name})")
    yield SkippedProbe("cheat", "cheat", NO_SANDBOX)
    if any(check.kind == CommunicatedCheck.kind for check in checks):
        about = "an attempt that tells the person every number"
        yield Probe(f"{SHORTCUT}-all-numbers", "cheat", "fail", CallsAgent("cheat:shortcut", _ALL_NUMBERS), about)
    if hooks.shortcuts is None:
        yield SkippedProbe(SHORTCUT, "cheat", "the world gives no `shortcuts`")
    for name, calls in (hooks.shortcuts or {}).items():
        about = _describe_shortcut(name, calls)
        yield Probe(f"{SHORTCUT}-{name}", "cheat", "fail", CallsAgent("cheat:shortcut", calls), about)
    if hooks.elsewhere is None:
        reason = "no solution is known that another seed of this world would need, and this one would not"
        yield SkippedProbe(BLIND, "cheat", reason)
    else:
        about = "the solution of the same world with another seed"
        yield Probe(BLIND, "cheat", "fail", CallsAgent("cheat:blind-replay", hooks.elsewhere), about)
    yield from _perturbed(config, hooks)
    yield from _varied(config, hooks)


def _describe_shortcut(name: str, calls: Sequence[ToolCall]) -> str:
    if name.startswith(ONE_CALL):
        return f"one call of {calls[0].name}, with any text and without a look at the problem,"
    if name.startswith(ALL_ACTS):
        return f"asking the person for everything that they can do, without a look at the problem ({name}),"
    return f"an attempt that leaves the task undone ({name})"


def _perturbed(config: AdmitConfig, hooks: WorldHooks) -> Iterator[Probe | SkippedProbe]:
    most = config.most_mutants(ATTEMPTS)
    if hooks.perturb is None or not most:
        reason = "the world gives no `perturb`" if hooks.perturb is None else LEFT_OUT
        yield SkippedProbe("sensitivity", "sensitivity", reason)
        return
    for number, (name, calls) in enumerate(list(hooks.perturb.items())[:most], 1):
        rewrite = Rewrite(f"mutant.{number:03d}", "sensitivity", {}, _as_lines(calls), name)
        agent = CallsAgent("mutant", calls)
        yield Probe(rewrite.name, "sensitivity", None, agent, f"a wrong solution ({name})", rewrite=rewrite)


def _varied(config: AdmitConfig, hooks: WorldHooks) -> Iterator[Probe | SkippedProbe]:
    most = config.most_variants(ATTEMPTS)
    if not hooks.variants or not most:
        lacking = "the world gives no `variants`" if hooks.variants is None else "no other right solution is known"
        yield SkippedProbe("strictness", "strictness", lacking if not hooks.variants else LEFT_OUT)
        return
    for name, calls in list(hooks.variants.items())[:most]:
        rewrite = Rewrite(f"variant.{name}", "strictness", {}, _as_lines(calls), name)
        about = f"the solution in another way ({name})"
        yield Probe(rewrite.name, "strictness", "pass", CallsAgent("variant", calls), about, rewrite=rewrite)


def _as_lines(calls: Sequence[ToolCall]) -> str:
    return "\n".join(f"{call.name} {call.arguments}" for call in calls) + "\n"
