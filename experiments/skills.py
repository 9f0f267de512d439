"""Does verification make a distilled skill? `docs/experiments/skills.md` has the plan and the results.

One cell is a seed. A random agent that reads the text of `adventure` (7 rooms, 2 locks) makes 3,000 attempts; rules are
distilled from its passes; three more rounds of 600 attempts follow the rules of the round before and refine them. The
arms are tried on held-out worlds with the same draws: no skill, the skill, the skill with its factors shuffled (equal
length), and a skill from the same number of attempts whose outcome is ignored.

    python -m experiments.skills --seeds 1 2 3 4 5
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping, Sequence

import numpy as np

from assay.agents.text_rules import TextMemory, choose_act, parse_rules
from assay.environments.worlds.adventure import Adventure
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


def main() -> None:
    """Measures the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    run_rules(parser.parse_args().seeds)


if __name__ == "__main__":
    main()
