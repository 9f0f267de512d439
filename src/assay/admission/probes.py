"""The battery as data: which attempts a task is put to, in which order, and what a sound verifier says of each.

Invariant: one task, one configuration and one knowledge give one list. What cannot be tried stands in it as untried,
with the reason; nothing is left out without a word.
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
from assay.records import Limits
from assay.rollout.attempt.variation import Variation
from assay.rollout.plan import PlannedAttempt, Verification, attempt_seed, merge_limits
from assay.tasks import LoadedTask

from .bundles import bundle_cheats
from .config import AdmitConfig
from .knowledge import Known
from .probe import Group, Probe, Untried
from .rewrites import Rewrite
from .sensitivity import mutants
from .strictness import variants
from .variations import CIRCUMSTANCES, CONTROLS, TOGETHER, Circumstance, OracleUnder, circumstances, combine
from .worlds import WorldHooks

__all__ = [
    "has_oracle",
    "oracle_probes",
    "plan_of",
    "sandbox_probes",
    "world_probes",
]

FIRST, CLOCK = "oracle.1", "oracle.clock"
BLIND = "cheat.blind-replay"
SHORTCUT = "cheat.shortcut"
LEFT_OUT = "left out by --quick"
NO_SANDBOX = "the task's world runs no agent code: there is no sandbox to do this in"
ATTEMPTS = 38
"""What a task's battery is planned for, unless more mutants or variants are asked for, or an attempt that several
probes share does not clear them."""
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


def plan_of(probe: Probe, loaded: LoadedTask, number: int, config: AdmitConfig) -> PlannedAttempt:
    """The attempt of a probe; `number` is its place in the task's list."""
    task = loaded.task
    adversary = Limits(wall_s=config.adversary_s) if probe.group in ("null", "cheat") else Limits()
    told = {"probe": probe.name, "group": probe.group, "wanted": probe.wanted, "verification": probe.verification}
    if probe.circumstance is not None:
        told["circumstance"] = probe.circumstance
    return PlannedAttempt(
        id=f"{task.id}@{probe.id}",
        loaded=loaded,
        number=number,
        seed=attempt_seed(config.seed, task.digest, probe.id, 0),
        limits=merge_limits(merge_limits(config.limits, task.limits), adversary),
        agent=probe.agent,
        verification=probe.verification,
        variation=msgspec.structs.replace(probe.variation, counted=True),
        extra_config=told,
    )


def oracle_probes(config: AdmitConfig) -> Iterator[Probe]:
    """Yields the attempts that everything else follows from: the reference solution as it is, first judged by default,
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
    loaded: LoadedTask, config: AdmitConfig, spec: WorkspaceSpec, known: Known | None, cache: Path
) -> Iterator[Probe | Untried]:
    """All that follows `oracle_probes` of a task in a sandbox."""
    plan = _Plan(config, loaded)
    knowledge = known.knowledge if known is not None else Knowledge(spec.workdir)
    planned = list(_circumstances(plan, spec, cache)) if has_oracle(loaded) else []
    for verification in config.verifications:
        planned += _nulls(knowledge, verification, shaped=known is not None)
        planned += _cheats(plan, knowledge, verification)
    yield from planned
    before = sum(isinstance(one, Probe) and one.verification == plan.main for one in planned)
    yield from _rewrites(plan, known, before + config.n)


def _circumstances(plan: _Plan, spec: WorkspaceSpec, cache: Path) -> Iterator[Probe | Untried]:
    found = list(_each_circumstance(plan, spec, cache))
    yield from (one for one in found if isinstance(one, Untried))
    probes = [one for one in found if isinstance(one, Probe)]
    controls = tuple(probe for probe in probes if probe.name.removeprefix("oracle.") in CONTROLS)
    for probe in probes:
        # The library that shifts clocks breaks some programs by itself: its failures would be everybody's.
        if f"{probe.name}-control" in {control.name for control in controls}:
            yield probe._replace(members=controls)
    rest = [probe for probe in probes if not probe.name.startswith(f"{CLOCK}")]
    if len(rest) < 2:
        yield from rest
    else:
        yield _under_all(plan, rest, circumstances(spec, cache))


def _under_all(plan: _Plan, probes: Sequence[Probe], known: Iterable[Circumstance]) -> Probe:
    """The reference solution under several circumstances at once."""
    names = {probe.name for probe in probes}
    together = combine([one for one in known if f"oracle.{one.name}" in names])
    about = "the reference solution under all other circumstances at once"
    return Probe(
        f"oracle.{TOGETHER}", "completeness", None, OracleUnder(*together.parts), about, plan.main,
        together.variation, circumstance=TOGETHER, members=tuple(probes),
    )  # fmt: skip


def _each_circumstance(plan: _Plan, spec: WorkspaceSpec, cache: Path) -> Iterator[Probe | Untried]:
    for one in circumstances(spec, cache):
        name = f"oracle.{one.name}"
        if plan.config.quick:
            yield Untried(name, "completeness", LEFT_OUT)
        elif one.missing is not None:
            yield Untried(name, "completeness", one.missing)
        elif not one.as_always:
            about = f"the reference solution with {(CIRCUMSTANCES | CONTROLS)[one.name]}"
            wanted: Literal["pass"] | None = None if one.name in CONTROLS else "pass"
            agent = OracleUnder(one)
            yield Probe(name, "completeness", wanted, agent, about, plan.main, one.variation, circumstance=one.name)


def _nulls(knowledge: Knowledge, verification: Verification, *, shaped: bool) -> Iterator[Probe | Untried]:
    yield Probe("null.nothing", "null", "fail", NullAgent(), "nothing done", verification)
    for name, kind in NULLS.items():
        agent = kind(knowledge)
        if not shaped:
            yield Untried(f"null.{name}", "null", "without a reference solution nobody knows what an answer looks like")
        elif name != "crash" and not any(True for _ in agent.files()):
            yield Untried(f"null.{name}", "null", "solving touches no file that such an answer can be made of")
        else:
            yield Probe(f"null.{name}", "null", "fail", agent, NULL_WORDS[name], verification)


def _cheats(plan: _Plan, knowledge: Knowledge, verification: Verification) -> Iterator[Probe | Untried]:
    found = list(_each_cheat(plan, knowledge, verification))
    yield from bundle_cheats([one for one in found if isinstance(one, Probe)], knowledge, verification)
    yield from (one for one in found if isinstance(one, Untried))


def _each_cheat(plan: _Plan, knowledge: Knowledge, verification: Verification) -> Iterator[Probe | Untried]:
    for cheat in CHEATS:
        name = f"cheat.{cheat.name}"
        why_not = cheat.applies(knowledge)
        if plan.config.quick and not cheat.quick:
            yield Untried(name, "cheat", LEFT_OUT)
        elif why_not is not None:
            yield Untried(name, "cheat", why_not)
        else:
            yield Probe(name, "cheat", "fail", CheatAgent(cheat, knowledge), cheat.exploits, verification)


def _rewrites(plan: _Plan, known: Known | None, planned: int) -> Iterator[Probe | Untried]:
    left_out = LEFT_OUT if plan.config.quick else "asked for none"
    room = ATTEMPTS - planned - 1  # the control
    variants_most = plan.config.most_variants(room)
    most: dict[Group, int] = {
        "sensitivity": plan.config.most_mutants(room - variants_most),
        "strictness": variants_most,
    }
    groups = [group for group in most if most[group]]
    yield from (Untried(group, group, left_out) for group in most if not most[group])
    if known is None or known.problem is not None:
        reason = known.problem if known is not None else None
        lacking = reason or "there is no recorded state of the reference solution"
        yield from (Untried(group, group, lacking) for group in groups)
        return
    if not groups:
        return
    told = {"name": "oracle.files", "operator": "none"}
    control = RewriteAgent("oracle-files", known.state, {}, told)
    yield Probe("oracle.files", "completeness", None, control, "the files that the solution left", plan.main)
    knowledge, seed = known.knowledge, plan.config.seed
    found = (
        *_mutants(known, seed, most["sensitivity"]),
        *(variants(knowledge, seed=seed, most=most["strictness"]) if most["strictness"] else ()),
    )
    for group in groups:
        mine = [rewrite for rewrite in found if rewrite.group == group]
        if not mine:
            yield Untried(group, group, "the solution's files give nothing to change in this way")
        for rewrite in mine:
            yield _rewritten(plan, known, rewrite)


def _mutants(known: Known, seed: int, most: int) -> tuple[Rewrite, ...]:
    return mutants(known.knowledge, seed=seed, most=most, verifier=known.verifier) if most else ()


def _rewritten(plan: _Plan, known: Known, rewrite: Rewrite) -> Probe:
    told = {"name": rewrite.name, "operator": rewrite.operator, "diff": rewrite.diff}
    mutant = rewrite.group == "sensitivity"
    agent = RewriteAgent("mutant" if mutant else "variant", known.state, rewrite.files, told)
    about = f"the solution changed by {rewrite.operator}" if mutant else f"the solution with {rewrite.operator}"
    wanted: Literal["pass"] | None = None if mutant else "pass"
    return Probe(rewrite.name, rewrite.group, wanted, agent, about, plan.main, rewrite=rewrite)


def world_probes(config: AdmitConfig, hooks: WorldHooks) -> Iterator[Probe | Untried]:
    """All probes of a task in an in-process world, the first included."""
    if hooks.oracle is None:
        yield Untried("oracle", "completeness", "the world gives no `oracle`")
    else:
        for number in range(1, config.n + 1):
            agent = CallsAgent("oracle", hooks.oracle)
            yield Probe(f"oracle.{number}", "completeness", "pass", agent, "the reference solution")
    yield from (Untried(f"oracle.{name}", "completeness", NO_SANDBOX) for name in CIRCUMSTANCES)
    yield Probe("null.nothing", "null", "fail", NullAgent(), "nothing done")
    if hooks.null is None:
        yield Untried("null", "null", "the world gives no `null`")
    for name, calls in (hooks.null or {}).items():
        yield Probe(f"null.{name}", "null", "fail", CallsAgent("null", calls), f"calls that do nothing ({name})")
    yield Untried("cheat", "cheat", NO_SANDBOX)
    if hooks.shortcuts is None:
        yield Untried(SHORTCUT, "cheat", "the world gives no `shortcuts`")
    for name, calls in (hooks.shortcuts or {}).items():
        about = f"an attempt that leaves the task undone ({name})"
        yield Probe(f"{SHORTCUT}-{name}", "cheat", "fail", CallsAgent("cheat:shortcut", calls), about)
    if hooks.elsewhere is None:
        reason = "no solution is known that another seed of this world would need, and this one would not"
        yield Untried(BLIND, "cheat", reason)
    else:
        about = "the solution of the same world with another seed"
        yield Probe(BLIND, "cheat", "fail", CallsAgent("cheat:blind-replay", hooks.elsewhere), about)
    yield from _perturbed(config, hooks)
    yield Untried("strictness", "strictness", "a world's solution is a list of calls: nothing is rewritten in it")


def _perturbed(config: AdmitConfig, hooks: WorldHooks) -> Iterator[Probe | Untried]:
    most = config.most_mutants(ATTEMPTS)
    if hooks.perturb is None or not most:
        reason = "the world gives no `perturb`" if hooks.perturb is None else LEFT_OUT
        yield Untried("sensitivity", "sensitivity", reason)
        return
    for number, (name, calls) in enumerate(list(hooks.perturb.items())[:most], 1):
        diff = "\n".join(f"{call.name} {call.arguments}" for call in calls) + "\n"
        rewrite = Rewrite(f"mutant.{number:03d}", "sensitivity", {}, diff, name)
        agent = CallsAgent("mutant", calls)
        yield Probe(rewrite.name, "sensitivity", None, agent, f"a wrong solution ({name})", rewrite=rewrite)
