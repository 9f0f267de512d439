"""The part of the showcase that is about making agents better: a skill, a search over options, and a searched world."""

from __future__ import annotations

import random
from pathlib import Path

from assay.learning.evolution.evolve import EvolutionEntry
from assay.learning.release_line import ReleaseEntry
from assay.learning.skills.holdouts import HoldoutUse
from assay.learning.skills.records import ArmResult, Claim, Edit, EditProposal, EvidenceRef, SkillEntry, TrialRecord
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
    digest_bytes,
    digest_record,
)
from assay.store import RunStore
from assay.store.chained_file import ChainedFile

SKILL, SEARCH, SEARCHED, LINE = "crown-rules", "fact-prompts", "searched", "nightly"
_ROOMS = ("hall", "cellar", "garden", "tower", "kitchen", "attic", "well")


def _write_releases(root: Path, at: float) -> None:
    """Writes a line of releases with an accepted and a refused candidate."""
    gained, lost = tuple(f"parse-{n}" for n in range(9)), tuple(f"parse-{n}" for n in range(3))
    reasons = (
        "9 gained, 1 lost, no protected task lost (one-sided p = 0.011)",
        "4 gained and 3 lost: chance explains that (one-sided p = 0.500)",
    )
    entries = [
        ReleaseEntry("loop-2", "loop-1", True, reasons[:1], gained, lost[:1], "tasks", 1, at),
        ReleaseEntry("loop-3", "loop-2", False, reasons[1:], gained[:4], lost, "tasks", 2, at + 86_400),
    ]
    _write_chain(root / "releases" / f"{LINE}.jsonl", ReleaseEntry, entries)


def write_improving(root: Path, draw: random.Random, at: float) -> None:
    """Writes a skill's ledger with an accepted and a refused version, a search with its gate, a line of releases, and a
    search's tree."""
    _write_skill(root, at)
    _write_search(root)
    _write_releases(root, at)
    _write_tree(root, draw, at)


def _version(name: str) -> str:
    return digest_bytes(name.encode())


def _arm(name: str, passed: int, steps: float) -> ArmResult:
    return ArmResult(name, (f"{SKILL}-{name}-1",), 100, passed, 100, passed / 100, steps, None, None)


def _trial(version: str, *, accepted: bool, with_skill: int, reason: str) -> TrialRecord:
    arms = (_arm("none", 4, 31.2), _arm("skill", with_skill, 24.8), _arm("placebo", 5, 30.9))
    p_none, p_placebo, alpha, looks = (0.00012, 0.00034, 0.03, 1) if accepted else (0.41, 0.52, 0.015, 3)
    return TrialRecord(
        accepted=accepted, causes=() if accepted else ("no gain",), reasons=(reason,), holdout=_version("holdout"),
        alpha=alpha, arms=arms, p_none=p_none, p_placebo=p_placebo, looks=looks, planned=100, use=_version(version),
    )  # fmt: skip


def _write_skill(root: Path, at: float) -> None:
    attempt = "adventure-7-3@0"
    seen = EvidenceRef("first", attempt, f"{attempt}.0", _version("head"), (4, 9, 11))
    claims = tuple(
        Claim(f"- {rule}", "rule", (seen,), taken, expected)
        for rule, taken, expected in (("take crown: x101", 28, 0.3), ("go back while holding the crown: x12", 77, 5.9))
    )
    edit = Edit("replace", "- go to a new room: x1.4", "- go to a new room only without the crown: x0.2")
    edits = (edit, Edit("add", "", "- unlock: x4"))
    proposal = EditProposal("failing attempts carried the crown away from home", edits, (seen,))
    gained = "significant gain: one-sided p 0.0001, level 0.03; 27 tasks gained, 1 lost"
    lost = "no significant gain over no skill: one-sided p 0.41, level 0.015; 6 tasks gained, 5 lost"
    first, second = _version("one"), _version("two")
    kept = _trial("one", accepted=True, with_skill=30, reason=gained)
    refused = _trial("two", accepted=False, with_skill=5, reason=lost)
    entries = [
        SkillEntry(kind="distil", version=first, at=at, source="runs first, second", claims=claims),
        SkillEntry(kind="trial", version=first, at=at + 900, trial=kept),
        SkillEntry(kind="edit", version=second, at=at + 1800, base=first, proposal=proposal),
        SkillEntry(kind="trial", version=second, at=at + 2700, trial=refused),
    ]
    _write_chain(root / "skills" / SKILL / "ledger.jsonl", SkillEntry, entries)
    uses = [
        HoldoutUse(_version("h"), (_version("a"), _version("b")), SKILL, version, "d", alpha, left, earlier, at + after)
        for version, alpha, left, earlier, after in ((first, 0.03, 0.02, 0, 600), (second, 0.015, 0.005, 1, 2400))
    ]
    _write_chain(root / "skills" / "holdouts.jsonl", HoldoutUse, uses)


def _write_search(root: Path) -> None:
    base = {"memory_item": "{when} {act} {what}", "memory_prompt": "{items}\n{task}", "recall": 3}
    found = [
        ({}, 0.33, 1.0), ({"memory_item": "{what}"}, 0.58, 1.0), ({"memory_item": "{what}", "recall": 1}, 0.92, 1.2),
        ({"memory_prompt": "Notes:\n{items}\nTask: {task}"}, 0.42, 1.4), ({"recall": 1}, 0.67, 1.1),
        ({"memory_item": "{what}", "recall": 8}, 0.25, 0.8),
    ]  # fmt: skip
    entries = [
        EvolutionEntry("candidate", "recipe", {**base, **change}, (f"{SEARCH}-{n}-12",), 12, rate, turns)
        for n, (change, rate, turns) in enumerate(found)
    ]
    reason = "significant gain over the present configuration: one-sided p 0.0002, level 0.03; 19 tasks gained, 1 lost"
    runs = (f"{SEARCH}-gate-base-1", f"{SEARCH}-gate-winner-1")
    winner = {**base, **found[2][0]}
    entries.append(
        EvolutionEntry(
            "gate", "recipe", winner, runs, 34, 0.794, None, accepted=True, base_rate=0.265, reasons=(reason,)
        )
    )
    _write_chain(root / "evolution" / f"{SEARCH}.jsonl", EvolutionEntry, entries)


def _write_chain(path: Path, kind: type, entries: list) -> None:  # type: ignore[type-arg]
    import msgspec

    previous = ""
    with ChainedFile(path, kind).locked() as append:
        for entry in entries:
            linked = msgspec.structs.replace(entry, previous=previous)
            append(linked)
            previous = linked.digest


def _write_tree(root: Path, draw: random.Random, at: float) -> None:
    """An attempt of a best-first search: each act follows a state that some earlier act led to."""
    manifest = {"agent": "best-first:novelty", "assay_version": "0.1.0", "created": at}
    with RunStore.create(root, SEARCHED, manifest) as store:
        task, agent = "adventure-5-1", "best-first:novelty"
        chain, digest = f"{task}@0.0", digest_record(task)
        bodies: list[Body] = [AttemptStarted(SEARCHED, f"{task}@0", task, digest, agent, None, 0, 0, at=at)]
        origins, goal, last = [-1], 46, -1
        for index in range(64):
            after = draw.choice(origins[-7:]) if index % 3 else last
            if after != index - 1:
                bodies.append(
                    EvidenceAdded(
                        Evidence(f"e{index}", "audit", "branch", {"branch": index, "at": index, "after": after})
                    )
                )
            call = ToolCall(f"c{index}", "go", f'{{"door": "{draw.choice(_ROOMS)}"}}', {"door": "x"})
            room = Observation(f"You are in the {draw.choice(_ROOMS)}.", f"c{index}")
            bodies.append(
                StepAdded(
                    Step(index, "agent", None, None, (call,), (room,), started=at + index, ended=at + index + 0.5)
                )
            )
            origins, last = [*origins, index], index
        told = {"value": "novelty", "privileged": False, "acts": 64, "states": 41, "adopted": 9, "best_value": 1.0}
        bodies += [
            EvidenceAdded(Evidence("search", "audit", "search", told)),
            EvidenceAdded(Evidence("adopted", "audit", "branch_adopted", {"branch": goal, "at": 64, "after": goal})),
            VerdictAdded(Verdict("solved", "outcome", "pass", 1.0, "the crown is home", separation="no-agent-code")),
            AttemptEnded("the world ended", at=at + 66, metrics={"wall_s": 66.0}),
        ]
        store.append(chain, bodies)
