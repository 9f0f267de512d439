"""A skill that is better in simulation and not end to end: how likely each operator of `repair` is.

In functions of installed packages one operator makes a fault; every change of the repair alphabet in that function and
two others is a candidate, and the one that restores the file is right. A rule of the skill says how much more often an
operator was right than it was among the candidates. The simulation ranks the candidates of packages that the rules were
not counted in; the trial of the skill is `assay skills trial` (`docs/experiments/refused-skills.md`).

    python -m experiments.repair_priors --record
    python -m experiments.repair_priors --skill repair-priors
"""

from __future__ import annotations

import importlib.util
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from assay.agents._repair_search import LIKELIHOOD
from assay.agents.text_rules import render_rule
from assay.code.operators import Site, apply, find_sites, repair_candidates
from assay.code.source import SourceError
from assay.learning.skills.folder import SKILL_FILE, SkillFolder, validate_skill, write_skill
from assay.learning.skills.front_matter import render_front_matter

from ._results import Table
from ._running import make_parser, open_recording

PACKAGES = (
    "aiohttp", "attr", "charset_normalizer", "click", "coverage", "dateutil", "grimp", "hypothesis", "jinja2",
    "markdown_it", "multidict", "packaging", "pathspec", "pluggy", "pygments", "requests", "rich", "strictyaml",
    "tomlkit", "typer", "urllib3", "yarl",
)  # fmt: skip
FIRST = (10, 20, 40)


class Fault(NamedTuple):
    """A fault with the candidates for its repair."""

    package: str
    right: str
    """Operator of the candidate that restores the file."""
    operators: tuple[str, ...]
    """Operator of each candidate, the right one first."""


def make_faults(package: str, number: int, draw: random.Random) -> list[Fault]:
    """Makes faults in a package's functions; files that cannot be parsed are left out."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return []
    files = sorted(path for path in Path(found.origin).parent.rglob("*.py") if path.stat().st_size < 60_000)
    draw.shuffle(files)
    faults: list[Fault] = []
    for path in files:
        if len(faults) >= number:
            break
        try:
            faults += _faults_of_file(package, path.read_text(), draw)
        except (SourceError, UnicodeDecodeError):
            continue
    return faults[:number]


def _faults_of_file(package: str, text: str, draw: random.Random) -> list[Fault]:
    sites = [site for site in find_sites(text) if site.function]
    faults = []
    for site in draw.sample(sites, min(3, len(sites))):
        try:
            broken = apply(text, site)
            fault = _fault(package, text, broken, site, draw)
        except SourceError:
            continue
        faults += [fault] if fault is not None else []
    return faults


def _fault(package: str, text: str, broken: str, site: Site, draw: random.Random) -> Fault | None:
    candidates = [one for one in repair_candidates(broken) if one.function]
    functions = sorted({one.function for one in candidates} - {site.function})
    near = {site.function, *draw.sample(functions, min(2, len(functions)))}
    chosen = [one for one in candidates if one.function in near]
    right = next((one for one in chosen if apply(broken, one) == text), None)
    if right is None:
        return None
    return Fault(package, right.operator, (right.operator, *(one.operator for one in chosen if one is not right)))


def count_factors(faults: Sequence[Fault]) -> dict[str, float]:
    """Returns how much more often than chance each operator was right."""
    taken, expected = Counter(one.right for one in faults), Counter[str]()
    for fault in faults:
        for operator in fault.operators:
            expected[operator] += 1 / len(fault.operators)  # type: ignore[assignment]
    return {name: (taken[name] + 1) / (expected[name] + 1) for name in sorted(expected)}


def rank_of_right(fault: Fault, likelihoods: Mapping[str, float], draw: random.Random) -> int:
    """Returns how many candidates come before the right one, by the search's own rule."""
    scores = [likelihoods.get(one, 0.5) * draw.uniform(0.6, 1.4) for one in fault.operators]
    return sum(score > scores[0] for score in scores[1:])


def write_priors(name: str, factors: Mapping[str, float]) -> SkillFolder:
    """Returns the skill with one rule an operator."""
    front = render_front_matter({
        "name": name,
        "description": "How likely each kind of edit repairs a small fault in Python code. Use it to order the edits.",
    })  # fmt: skip
    ordered = sorted(factors.items(), key=lambda one: -one[1])
    lines = "\n".join(render_rule(operator.replace("_", " "), factor) for operator, factor in ordered)
    return SkillFolder(name, {SKILL_FILE: f"{front}\n# {name}\n\n## Rules\n\n{lines}\n".encode()})


def make_tables(faults: Sequence[Fault]) -> dict[str, Table]:
    """Returns how early each table of factors finds the right edit; the one of a package is counted in the others."""
    packages = sorted({one.package for one in faults})
    ranks: dict[str, list[int]] = {"none": [], "set by hand": [], "learnt": []}
    better = 0
    for package in packages:
        learnt = count_factors([one for one in faults if one.package != package])
        factors: dict[str, Mapping[str, float]] = {"none": {}, "set by hand": LIKELIHOOD, "learnt": learnt}
        own = {
            name: [rank_of_right(one, table, random.Random(f"{package}/{k}")) for k, one in _of(faults, package)]
            for name, table in factors.items()
        }
        better += sum(rank < 20 for rank in own["learnt"]) > sum(rank < 20 for rank in own["set by hand"])
        for name, some in own.items():
            ranks[name] += some
    rows = [
        [name, *(f"{sum(rank < first for rank in some) / len(some):.2f}" for first in FIRST)]
        for name, some in ranks.items()
    ]
    candidates = sorted(len(one.operators) for one in faults)
    counts = [
        ["faults", str(len(faults))],
        ["packages", str(len(packages))],
        ["candidates of a fault, median", str(candidates[len(candidates) // 2])],
        ["packages where learnt is better than hand-set in the first 20", str(better)],
    ]
    return {"first": Table(["table", *map(str, FIRST)], rows), "faults": Table(["counted", "number"], counts)}


def main() -> None:
    """Reports the simulation, and writes the skill of all faults."""
    parser = make_parser(__doc__, store=False)
    parser.add_argument("--faults", type=int, default=40, help="for each package")
    parser.add_argument("--skill", default="", help="new folder to write the skill to")
    given = parser.parse_args()
    plan = f"{__doc__}\n{given.faults} faults of each package, drawn with its name as seed."
    recording = open_recording("repair-priors", "repair_priors", given, plan, [0])
    faults = [one for name in PACKAGES for one in make_faults(name, given.faults, random.Random(name))]
    recording.write(make_tables(faults))
    if given.skill:
        skill = write_priors(Path(given.skill).name, count_factors(faults))
        assert validate_skill(skill) == ()
        write_skill(skill, Path(given.skill))


def _of(faults: Sequence[Fault], package: str) -> list[tuple[int, Fault]]:
    return [(number, one) for number, one in enumerate(faults) if one.package == package]


if __name__ == "__main__":
    main()
