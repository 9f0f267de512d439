"""Does verification make a distilled skill? `docs/experiments/skills.md` has the plan and the results.

One cell is a seed. A random agent that reads the text of `adventure` (7 rooms, 2 locks) makes 3,000 attempts; rules are
distilled from its passes; three more rounds of 600 attempts follow the rules of the round before and refine them. The
arms are tried on held-out worlds with the same draws: no skill, the skill, the skill with its factors shuffled (equal
length), and a skill from the same number of attempts whose outcome is ignored.

    python -m experiments.skills rules --seeds 1 2 3 4 5
    python -m experiments.skills gate
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from assay.agents.text_rules import TextMemory, choose_act, parse_rules
from assay.environments.worlds.adventure import Adventure
from assay.learning.skills.decision import TaskPasses, TrialDecision, TrialDesign, decide_trial
from assay.learning.skills.distil import TextAttempt, TextTurn, distil_rules, write_rule_skill
from assay.learning.skills.folder import SkillFolder, validate_skill
from assay.learning.skills.placebo import make_placebo
from assay.learning.skills.records import Claim, EvidenceRef
from assay.statistics import difference_interval

FIRST, LATER, ROUNDS, HELD_OUT = 3_000, 600, 3, 300
WORLD = {"rooms": 7, "locks": 2}


def play_attempt(world_seed: int, rules: Mapping[str, float], draw: random.Random) -> TextAttempt:
    """Makes one attempt by what the world's text shows; the outcome is the world's own fact."""
    world = Adventure(WORLD, world_seed)
    brief = f"{world.brief()}\n{world.reset()}"
    memory, turns = TextMemory(brief), list[TextTurn]()
    while not world.over:
        command = choose_act(memory.possible_acts(), rules, draw).command
        turn = world.act("do", {"command": command})
        turns.append(TextTurn(len(turns), command, turn.observation))
        memory.observe(command, turn.observation)
    source = EvidenceRef("in process", f"world-{world_seed}", f"world-{world_seed}", "", ())
    return TextAttempt(source, world.solved(), brief, turns)


def play_round(seed: int, number: int, rules: Mapping[str, float]) -> list[TextAttempt]:
    """Makes the attempts of one round, on worlds that no other round and no held-out set has."""
    draw, start = random.Random(f"{seed}/{number}"), seed * 1_000_000 + number * 10_000
    return [play_attempt(start + k, rules, draw) for k in range(FIRST if number == 0 else LATER)]


def distil_rounds(seed: int, first: Sequence[TextAttempt], *, verified: bool) -> tuple[SkillFolder, list[int]]:
    """Returns the skill after all rounds and the passes of each round; `verified=False` takes every attempt for one."""
    rules, claims, passes, attempts = dict[str, float](), tuple[Claim, ...](), list[int](), list(first)
    for number in range(1 + ROUNDS):
        if number:
            attempts = play_round(seed, number, rules)
        passes.append(sum(one.passed for one in attempts))
        taken = attempts if verified else [one._replace(passed=True) for one in attempts]
        claims = distil_rules(taken, rules, claims)
        rules = parse_rules("\n".join(claim.text for claim in claims))
    skill = write_rule_skill("adventure-guide", claims, attempts).skill
    assert validate_skill(skill) == ()
    assert all(claim.evidence for claim in claims if claim.taken)
    return skill, passes


def success(seed: int, rules: Mapping[str, float]) -> list[bool]:
    """Returns the outcomes on the held-out worlds, with the same draws for every arm."""
    worlds = range(seed * 1_000_000 + 900_000, seed * 1_000_000 + 900_000 + HELD_OUT)
    return [play_attempt(one, rules, random.Random(one)).passed for one in worlds]


def run_rules(seeds: Sequence[int]) -> None:
    """Prints a line a seed, and the differences over seeds."""
    rows = []
    for seed in seeds:
        started = time.process_time()
        first = play_round(seed, 0, {})
        skill, passes = distil_rounds(seed, first, verified=True)
        cost = time.process_time() - started
        unverified, _ = distil_rounds(seed, first, verified=False)
        placebo = make_placebo(skill, seed)
        assert len(placebo.text) == len(skill.text)
        texts = {"none": "", "skill": skill.text, "placebo": placebo.text, "unverified": unverified.text}
        arms = {name: parse_rules(text) for name, text in texts.items()}
        found = {name: success(seed, table) for name, table in arms.items()}
        rates = {name: sum(results) / len(results) for name, results in found.items()}
        rows.append(rates)
        cells = " | ".join(f"{rates[name]:.3f}" for name in arms)
        print(f"| {seed} | {', '.join(map(str, passes))} | {cells} | {cost:.1f} |", flush=True)
        if seed == seeds[0]:
            print(skill.text, flush=True)
    for other in ("none", "placebo", "unverified"):
        gains = [row["skill"] - row[other] for row in rows]
        ends = difference_interval(gains)
        print(f"skill - {other}: mean {np.mean(gains):+.3f}, 95% over seeds {ends}, each {np.round(gains, 3)}")
    drift = [row["unverified"] - row["none"] for row in rows]
    print(f"unverified - none: mean {np.mean(drift):+.3f}, each {np.round(drift, 3)}")


def run_gate(searches: int) -> None:
    """Prints how often searches of worthless candidates, and a true gain, are accepted."""
    null = [_search(np.random.default_rng(n)) for n in range(searches)]
    naive, gated = (float(np.mean(column)) for column in zip(*null, strict=True))
    print(f"20 worthless candidates, 40 tasks: accepted by the mean {naive:.3f}, by the gate {gated:.3f} of {searches}")
    for case in CASES:
        found = [_try(np.random.default_rng(10_000 + n), case) for n in range(searches)]
        joint, alone, tasks = (float(np.mean(column)) for column in zip(*found, strict=True))
        print(
            f"{case.name}: accepted {joint:.3f} with placebo, {alone:.3f} without; {tasks:.0f} tasks tried", flush=True
        )


class Case(NamedTuple):
    """A simulated trial of 100 tasks, 4 attempts each in each arm."""

    name: str
    shape: float
    """Task rates are Beta(shape, shape) x 0.9."""
    skill: float = 0.0
    placebo: float = 0.0
    shared: float = 0.0
    """Chance that an attempt has the same draw in all arms, as equal seeds give it."""
    interaction: float = 0.0
    """Standard deviation of an effect of each text on each task, with mean 0."""


CASES = (
    Case("+10 points, U-shaped rates", 0.5, skill=0.1),
    Case("+10 points, uniform rates", 1.0, skill=0.1),
    Case("+10 points, peaked rates", 2.0, skill=0.1),
    Case("+10 points, peaked rates, 30% shared draws", 2.0, skill=0.1, shared=0.3),
    Case("no effect", 1.0),
    Case("no better than the placebo, both +10 points", 1.0, skill=0.1, placebo=0.1),
    Case("no effect on average, each text helps some tasks and harms others", 1.0, interaction=0.2),
)


def _try(draw: np.random.Generator, case: Case) -> tuple[bool, bool, int]:
    """One trial: accepted with the placebo arm, accepted without it, and the tasks tried with it."""
    rates, common = draw.beta(case.shape, case.shape, 100) * 0.9, draw.random((100, 4))
    is_shared = draw.random((100, 4)) < case.shared
    arms = []
    for effect in (0.0, case.skill, case.placebo):
        shifted = rates + effect + (draw.normal(0, case.interaction, 100) if case.interaction else 0.0)
        values = np.where(is_shared, common, draw.random((100, 4)))
        arms.append((values < shifted[:, None]).sum(axis=1).tolist())
    passes = [TaskPasses(f"t{n:03}", *counts) for n, counts in enumerate(zip(*arms, strict=True))]
    joint = _decide(passes, 4)
    alone = _decide([one._replace(placebo=None) for one in passes], 4)
    return joint.accepted, alone.accepted, joint.tasks


def _decide(passes: Sequence[TaskPasses], attempts: int, looks: int = 3) -> TrialDecision:
    ends = [round(len(passes) * part / looks) for part in range(looks + 1)]
    design = TrialDesign(0.05, len(passes), attempts)
    decision = decide_trial([passes[start:end] for start, end in pairwise(ends)], design)
    assert decision is not None
    return decision


def _search(draw: np.random.Generator) -> tuple[bool, bool]:
    """One search: the best of 20 candidates by its mean on 40 tasks; accepted by that mean, and by one gate."""
    rates = draw.beta(2, 2, 40)
    base, best = draw.binomial(1, rates).mean(), 0.0
    for _ in range(20):
        best = max(best, draw.binomial(1, rates).mean())
    fresh = draw.beta(2, 2, 40)
    none, skill = draw.binomial(1, fresh).tolist(), draw.binomial(1, fresh).tolist()
    passes = [TaskPasses(f"t{n}", *counts) for n, counts in enumerate(zip(none, skill, strict=True))]
    return bool(best > base), _decide(passes, 1).accepted


def main() -> None:
    """Runs one of the two parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("rules", "gate"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--searches", type=int, default=1_000)
    given = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "rules": lambda: run_rules(given.seeds),
        "gate": lambda: run_gate(given.searches),
    }
    parts[given.part]()


if __name__ == "__main__":
    main()
