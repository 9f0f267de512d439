"""What a proof of a plan compares, without a sandbox."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import SimpleNamespace

import msgspec
import pytest

import assay.verify.payload
from assay.code.batches import Job, JobResult, RunOutcome
from assay.code.function_changes import compare_functions
from assay.synthesis._entry_trace import PAYLOAD, AnswerShape, RecordedEntryCalls, TracedTest, ValueKinds
from assay.synthesis._false_answers import (
    EDIT_ANSWERS,
    MOST_EDITS,
    SHAPED_ANSWERS,
    FalseAnswerJob,
    FalseAnswerResult,
    choose_false_answers,
)
from assay.synthesis._splice_proof import (
    ProofJob,
    ProofResult,
    VersionResult,
    compare_versions,
    draw_mutants,
    prove_splices,
)
from assay.verify.separation_plan import EntryPoint, EntryUse, SeparationPlan, TestPlan

RIGHT = "def area(width, height=2):\n    if width < 0:\n        raise ValueError\n    return width * height\n"
BROKEN = RIGHT.replace("*", "+")
CHANGES = {"a.py": compare_functions(RIGHT, BROKEN)}


def test_mutants_change_bodies_and_no_signatures() -> None:
    mutants = draw_mutants({"a.py": RIGHT}, CHANGES, "seed", 50)
    assert len(mutants) > 3
    assert all(mutant["a.py"].startswith("def area(width, height=2):\n") for mutant in mutants)


def test_mutants_are_the_same_for_one_seed() -> None:
    drawn = [draw_mutants({"a.py": RIGHT}, CHANGES, seed, 3) for seed in ("one", "one", "two")]
    assert drawn[0] == drawn[1] != drawn[2]


def job() -> ProofJob:
    plan = SeparationPlan("a", (EntryPoint("a", "area"),), (TestPlan("t", "splice", uses=(EntryUse("a:area"),)),))
    return ProofJob("one", plan, {}, {"a.py": BROKEN}, ({"a.py": RIGHT.replace("<", ">")},), 5.0)


def result(
    reference: str = "passed", unrepaired: str = "failed", mutant: str = "failed", **more: object
) -> ProofResult:
    first = VersionResult({"t": reference}, **{"calls": {"t": 1}, **more})  # type: ignore[arg-type]
    others = {"unrepaired": VersionResult({"t": unrepaired}), "mutant 1": VersionResult({"t": mutant})}
    return ProofResult("one", "done", versions={"reference": first, **others})


PLAIN = {"reference": {"t": "passed"}, "unrepaired": {"t": "failed"}, "mutant 1": {"t": "failed"}}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (result(), None),
        (result(reference="failed"), "spliced and plain outcomes differ on the reference"),
        (result(unrepaired="passed"), "spliced and plain outcomes differ on the unrepaired"),
        (result(mutant="passed"), "spliced and plain outcomes differ on the mutant"),
        (result(calls={}), "its entry points are not called where they are spliced"),
        (result(refused=(("t", "refused"),)), "an answer of the reference cannot be taken (refused)"),
        (ProofResult("one"), "the spliced tests do not run"),
    ],
)
def test_a_test_is_carried_only_where_both_ways_agree(found: ProofResult, reason: str | None) -> None:
    assert compare_versions(job(), found, PLAIN).objections.get("t") == reason


class Recorded:
    """A laboratory that answers with recorded replies."""

    def __init__(self, plain: str) -> None:
        self.requests: list[list[str]] = []
        self.plain = plain

    async def run_program(self, programs: object, request: bytes, wall_s: float, loaded: str) -> bytes:
        asked = msgspec.json.decode(request)["jobs"][0]
        whole, cut = result(reference="failed"), bool(asked["needed"])
        self.requests.append(asked["needed"])
        versions = {name: one for name, one in whole.versions.items() if name == "reference" or not cut}
        return msgspec.json.encode(msgspec.structs.replace(whole, versions=versions))

    async def run(self, jobs: Sequence[Job], *, repetition: int, **_: bool) -> dict[str, JobResult]:
        outcomes = {"one reference": self.plain, "one unrepaired": "failed", "one mutant 1": "failed"}
        return {one.id: JobResult(one.id, "done", tests={"t": RunOutcome(outcomes[one.id])}) for one in jobs}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plain", "requests", "killed"), [("passed", [["t"]], {"reference", "unrepaired"}), ("failed", [["t"], []], None)]
)
async def test_a_proof_ends_on_the_reference_where_a_needed_test_is_not_carried(
    plain: str, requests: list[list[str]], killed: set[str] | None
) -> None:
    tree = SimpleNamespace(roots=(".",), modules=("a.py",), import_names=("a",))
    laboratory = Recorded(plain)
    needed = job()._replace(needed=frozenset({"t"}))
    proof = (await prove_splices(laboratory, tree, [needed]))["one"]  # type: ignore[arg-type]
    assert laboratory.requests == requests
    assert proof.killed.keys() == (killed or {"reference", "unrepaired", "mutant 1"})
    if killed:
        assert proof.objections == {"t": "spliced and plain outcomes differ on the reference"}


def test_what_the_spliced_tests_kill_is_counted() -> None:
    assert compare_versions(job(), result(), PLAIN).killed["mutant 1"] == ("t",)


def traced(*places: tuple[str, str, int]) -> TracedTest:
    calls = RecordedEntryCalls(1, 1, 0, {"raise KeyError": 1}, (), (3,), ValueKinds(), ValueKinds())
    return TracedTest(("a:area",), uses={"a:area": calls}, outside=places[:1], inside=places)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ("None", "entry points answer: None"),
        ("a:f alone: own argument", "entry point a:f answers: own argument, the others are unrepaired"),
        ("f edited: None", "f edited: None"),
    ],
)
def test_a_lie_reads_as_the_end_of_a_reason(lie: str, reason: str) -> None:
    result = FalseAnswerResult("one", "done", {"t": lie})
    assert (result.describe_lie("t"), result.describe_lie("u")) == (reason, "")


def test_entry_points_lie_alone_where_a_test_has_several() -> None:
    box, size, fill = (
        RecordedEntryCalls(1, 1, 0, {"NoneType": 1}, (), (3,), ValueKinds(), ValueKinds()),
        traced(),
        traced(),
    )
    uses = {"a:Box.__init__": box, "a:Box.size": size.uses["a:area"], "a:Box.fill": fill.uses["a:area"]}
    liars = choose_false_answers(
        FalseAnswerJob("one", {}, {"t": TracedTest(uses=uses), "u": traced()}, frozenset(), 5.0)
    )["liars"]
    alone = [{"t": [entry]} for entry in sorted(uses)]
    assert liars == [*alone, {"t": ["a:Box.fill", "a:Box.size"]}]


def test_truth_values_in_tuples_are_lied_about() -> None:
    shape = AnswerShape("tuple", (AnswerShape("bool"), AnswerShape("list")))
    calls = RecordedEntryCalls(1, 1, 0, {"tuple": 1}, (), (3,), ValueKinds(), ValueKinds(), (shape,))
    lies = choose_false_answers(FalseAnswerJob("one", {}, {"t": TracedTest(uses={"a:f": calls})}, frozenset(), 5.0))
    assert set(SHAPED_ANSWERS) <= set(lies["answers"])
    assert not lies["liars"]


def test_functions_that_the_judge_runs_are_edited_first_and_changed_ones_always() -> None:
    places = tuple((f"/workspace/{n:02d}.py", "f", n) for n in range(30))
    lies = choose_false_answers(FalseAnswerJob("one", {}, {"t": traced(*places)}, frozenset({("05.py", "f")}), 5.0))
    assert len(lies["edits"]) == 1 + MOST_EDITS
    assert list(places[0]) in lies["edits"]
    assert list(places[5]) in lies["edits"]
    assert "raise KeyError" in lies["answers"]
    assert lies["edit_answers"] == list(EDIT_ANSWERS)


def test_default_dictionaries_of_false_answers_are_those_that_a_judge_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PAYLOAD)
    monkeypatch.syspath_prepend(*assay.verify.payload.__path__)
    answers, decoder = importlib.import_module("false_answers"), importlib.import_module("splice_decoder")
    assert {kind.__name__: kind for kind in answers.DEFAULTS} == decoder._FACTORIES
