"""Does verification make a distilled skill? `docs/experiments/skills.md` has the plan and the results.

One cell is a seed. A random agent that reads the text of `adventure` (7 rooms, 2 locks) makes 3,000 attempts; rules are
distilled from its passes; three more rounds of 600 attempts follow the rules of the round before and refine them. The
arms are tried on held-out worlds with the same draws: no skill, the skill, the skill with its factors shuffled (equal
length), and a skill from the same number of attempts whose outcome is ignored.

Set before the runs: five seeds; the skill passes at least .15 more than no skill and than the placebo, and more in each
seed; the unverified skill at most .02 more than none; a skill costs at most 15 CPU seconds; it is valid, and every rule
cites the steps that it counts.

    python -m experiments.skills --record
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from assay.agents.text_rules import TextMemory, choose_act, parse_rules
from assay.environments.worlds.adventure import Adventure
from assay.learning.skills.distil import TextAttempt, TextTurn, distil_rules, write_rule_skill
from assay.learning.skills.folder import SkillFolder, validate_skill
from assay.learning.skills.placebo import make_placebo
from assay.learning.skills.records import Claim, EvidenceRef

from ._paired import mean_cell, range_cell
from ._results import Bar, Recording, Table
from ._running import make_parser, open_recording

SEEDS = (1, 2, 3, 4, 5)
FIRST, LATER, ROUNDS, HELD_OUT = 3_000, 600, 3, 300
WORLD = {"rooms": 7, "locks": 2}
ARMS = ("none", "skill", "placebo", "unverified")


class SeedResult(NamedTuple):
    """One seed."""

    rates: dict[str, float]
    """Success on held-out worlds by arm."""
    passes: list[int]
    """Of each round that the skill is counted in."""
    cpu_s: float
    """CPU seconds for the skill."""
    problems: int
    """Problems of its format, and rules that cite nothing."""
    rules: dict[str, float]


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


def distil_rounds(seed: int, first: Sequence[TextAttempt], *, verified: bool) -> tuple[SkillFolder, list[int], int]:
    """Returns the skill after all rounds, the passes of each round, and the number of its problems;
    `verified=False` takes every attempt for one that passed."""
    rules, claims, passes, attempts = dict[str, float](), tuple[Claim, ...](), list[int](), list(first)
    for number in range(1 + ROUNDS):
        if number:
            attempts = play_round(seed, number, rules)
        passes.append(sum(one.passed for one in attempts))
        taken = attempts if verified else [one._replace(passed=True) for one in attempts]
        claims = distil_rules(taken, rules, claims)
        rules = parse_rules("\n".join(claim.text for claim in claims))
    skill = write_rule_skill("adventure-guide", claims, attempts).skill
    uncited = sum(bool(claim.taken) and not claim.evidence for claim in claims)
    return skill, passes, len(validate_skill(skill)) + uncited


def success(seed: int, rules: Mapping[str, float]) -> float:
    """Returns the success on the held-out worlds, with the same draws for every arm."""
    worlds = range(seed * 1_000_000 + 900_000, seed * 1_000_000 + 900_000 + HELD_OUT)
    return fmean(play_attempt(one, rules, random.Random(one)).passed for one in worlds)


def run_seed(seed: int) -> SeedResult:
    """Distils the skills of one seed and tries all arms."""
    started = time.process_time()
    first = play_round(seed, 0, {})
    skill, passes, problems = distil_rounds(seed, first, verified=True)
    cost = time.process_time() - started
    unverified, _, _ = distil_rounds(seed, first, verified=False)
    placebo = make_placebo(skill, seed)
    assert len(placebo.text) == len(skill.text)
    texts = zip(ARMS, ("", skill.text, placebo.text, unverified.text), strict=True)
    rates = {arm: success(seed, parse_rules(text)) for arm, text in texts}
    return SeedResult(rates, passes, cost, problems, dict(parse_rules(skill.text)))


def report(found: Sequence[SeedResult], recording: Recording) -> None:
    """Reports the seeds, the differences between arms, the rules of the first seed, and the bars."""
    rows = []
    for seed, one in zip(recording.seeds, found, strict=True):
        rates = [f"{one.rates[arm]:.3f}" for arm in ARMS]
        rows.append([str(seed), ", ".join(map(str, one.passes)), *rates, f"{one.cpu_s:.1f}"])
    pairs = {
        f"{arm} - {other}": [one.rates[arm] - one.rates[other] for one in found]
        for arm, other in (("skill", "none"), ("skill", "placebo"), ("skill", "unverified"), ("unverified", "none"))
    }
    gains = [[name, mean_cell(each), range_cell(each)] for name, each in pairs.items()]
    ranked = sorted(found[0].rules.items(), key=lambda one: -one[1])
    tables = {
        "seeds": Table(["seed", "passes, by round", *ARMS, "CPU s for the skill"], rows),
        "differences": Table(["arms", "difference [95% over seeds]", "by seed"], gains),
        "rules": Table(["rule", "factor"], [[name, f"{factor:.3g}"] for name, factor in ranked]),
    }
    bars = [
        Bar(f"the skill at least .15 above {other}, positive in every seed", f"{fmean(each):+.3f}, at least "
            f"{min(each):+.3f}", fmean(each) >= 0.15 and min(each) > 0)
        for other in ("none", "placebo") for each in (pairs[f"skill - {other}"],)
    ]  # fmt: skip
    drift, cost, problems = (
        fmean(pairs["unverified - none"]),
        max(one.cpu_s for one in found),
        [one.problems for one in found],
    )
    bars += [
        Bar("the unverified skill at most .02 above none", f"{drift:+.3f}", drift <= 0.02),
        Bar("at most 15 CPU seconds a seed", f"{cost:.1f} in the dearest seed", cost <= 15),
        Bar("the skill is valid and every rule cites its steps", f"{sum(problems)} problems", not any(problems)),
    ]
    recording.write(tables, bars)


def main() -> None:
    """Measures the seeds."""
    given = make_parser(__doc__, seeds=SEEDS, store=False).parse_args()
    recording = open_recording("rule-skill", "skills", given, __doc__, SEEDS)
    found = []
    for seed in recording.seeds:
        found.append(run_seed(seed))
        print(f"seed {seed} is done: {found[-1].rates}", flush=True)
    report(found, recording)


if __name__ == "__main__":
    main()
