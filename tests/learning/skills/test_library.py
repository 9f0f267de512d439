"""The life of a skill: ledger, edits, refused edits, retirement, holdouts."""

from __future__ import annotations

import errno
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
import pytest

from assay.errors import StoreError, UserError
from assay.learning.skills.folder import SkillFolder
from assay.learning.skills.holdouts import HoldoutLedger
from assay.learning.skills.library import SkillLibrary
from assay.learning.skills.records import Claim, Edit, EditProposal, TrialRecord

TEXT = "---\nname: guide\ndescription: Guides.\n---\n\n# guide\n\n- first\n- second\n"
CLAIM = Claim("- first", "text")
PROPOSAL = EditProposal("shorter", (Edit("replace", "- second", "- third"),))


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    found = SkillLibrary(tmp_path)
    found.add(SkillFolder("guide", {"SKILL.md": TEXT.encode()}), "import", reason="", source="x", claims=(CLAIM,))
    return found


def trial(*, accepted: bool) -> TrialRecord:
    causes = () if accepted else ("no gain",)
    return TrialRecord(accepted, causes, ("because",), "blake3:00", 0.03, (), None, None)


def test_edit_makes_a_candidate_that_a_trial_releases(library: SkillLibrary) -> None:
    entry = library.propose("guide", PROPOSAL)
    assert library.summary("guide").state == "candidate"
    assert "- third" in library.load("guide", entry.version).text
    library.record_trial("guide", entry.version, trial(accepted=True))
    assert library.summary("guide").released == entry.version
    assert library.summary("guide").claims[0] == CLAIM


def test_refused_edits_are_kept_and_refused_again(library: SkillLibrary) -> None:
    entry = library.propose("guide", PROPOSAL)
    library.record_trial("guide", entry.version, trial(accepted=False))
    assert [one.version for one in library.summary("guide").rejected] == [entry.version]
    with pytest.raises(UserError, match="tried and refused"):
        library.propose("guide", msgspec.structs.replace(PROPOSAL, reason="once more"))


def test_edit_of_a_line_that_is_not_there_is_refused(library: SkillLibrary) -> None:
    with pytest.raises(UserError, match="has 0 such lines"):
        library.propose("guide", EditProposal("x", (Edit("delete", "- fourth"),)))


@pytest.mark.parametrize(
    "fields", [{"op": "add"}, {"op": "replace", "text": "x"}, {"op": "delete", "line": "a", "text": "b"}]
)
def test_edit_needs_what_its_operation_needs(fields: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(fields, Edit)


def test_retired_skill_has_no_release(library: SkillLibrary) -> None:
    library.record_trial("guide", library.summary("guide").version, trial(accepted=True))
    library.retire("guide", "harmful")
    assert (library.summary("guide").state, library.summary("guide").released) == ("retired", None)
    with pytest.raises(UserError, match="retired already"):
        library.retire("guide", "again")


def test_changed_ledger_and_changed_files_are_noticed(library: SkillLibrary) -> None:
    library.propose("guide", PROPOSAL)
    version = library.summary("guide").version
    (library.folder_of("guide", version) / "SKILL.md").write_text("other")
    with pytest.raises(StoreError, match="was changed"):
        library.load("guide", version)
    path = library.folder / "guide" / "ledger.jsonl"
    path.write_text(path.read_text().replace("import", "distil", 1))
    with pytest.raises(StoreError, match="line 2"):
        library.summary("guide")


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden", "a" * 200, "holdouts.jsonl"])
def test_name_is_no_path(library: SkillLibrary, name: str) -> None:
    with pytest.raises(UserError, match="cannot name a skill"):
        library.summary(name)


def test_line_that_a_crash_tore_is_dropped_by_the_next_append(library: SkillLibrary) -> None:
    path = library.folder / "guide" / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind":"retire","ver')
    assert library.summary("guide").state == "candidate"
    library.propose("guide", PROPOSAL)
    assert [entry.kind for entry in library.entries("guide")] == ["import", "edit"]


def test_line_of_another_spelling_or_with_a_further_field_is_noticed(library: SkillLibrary) -> None:
    path = library.folder / "guide" / "ledger.jsonl"
    first = path.read_text()
    for changed in (first.replace('"kind"', ' "kind"', 1), first.replace("{", '{"accepted":true,', 1)):
        path.write_text(changed)
        with pytest.raises(StoreError, match="line 1"):
            library.summary("guide")


def test_appends_of_several_processes_make_one_chain(library: SkillLibrary) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        list(pool.map(propose_lines, [library.folder.parent] * 2, range(2)))
    assert len(library.entries("guide")) == 1 + 2 * 5


def propose_lines(store: Path, worker: int) -> None:
    for number in range(5):
        edit = Edit("add", "", f"- line {worker} {number}")
        SkillLibrary(store).propose("guide", EditProposal("more", (edit,)))


def test_trial_that_ends_after_the_retirement_releases_nothing(library: SkillLibrary) -> None:
    version = library.summary("guide").version
    library.retire("guide", "harmful")
    library.record_trial("guide", version, trial(accepted=True))
    assert (library.summary("guide").state, library.summary("guide").released) == ("retired", None)


def test_skill_whose_files_were_changed_can_be_retired(library: SkillLibrary) -> None:
    (library.folder_of("guide", library.summary("guide").version) / "SKILL.md").write_text("other")
    library.retire("guide", "changed")
    assert library.summary("guide").state == "retired"


def test_refused_edit_is_no_base_and_the_state_is_that_of_the_newest(library: SkillLibrary) -> None:
    first = library.summary("guide").version
    refused = library.propose("guide", PROPOSAL).version
    library.record_trial("guide", refused, trial(accepted=False))
    assert library.summary("guide").base == first
    other = library.propose("guide", EditProposal("x", (Edit("delete", "- first"),)))
    library.record_trial("guide", first, trial(accepted=True))
    assert (library.summary("guide").state, library.summary("guide").released) == ("candidate", first)
    assert "- second" in library.load("guide", other.version).text


def test_claims_of_a_retired_skill_are_kept_by_its_next_edit(library: SkillLibrary) -> None:
    library.retire("guide", "old")
    library.propose("guide", PROPOSAL)
    assert CLAIM in library.summary("guide").claims


def test_trial_is_recorded_once(library: SkillLibrary) -> None:
    version = library.summary("guide").version
    found = msgspec.structs.replace(trial(accepted=True), use="blake3:01")
    assert library.record_trial("guide", version, found) == library.record_trial("guide", version, found)
    assert len(library.entries("guide")) == 2


def test_placebo_is_apart_from_the_skill_even_by_name(tmp_path: Path) -> None:
    library, skill = SkillLibrary(tmp_path), SkillFolder("placebo", {"SKILL.md": TEXT.encode()})
    version = library.add(skill, "import", reason="", source="x").version
    folder = library.placebo_of("placebo", version, skill)
    assert library.load("placebo", version) == skill
    (folder / "SKILL.md").write_text("other")
    with pytest.raises(StoreError, match="was changed"):
        library.placebo_of("placebo", version, skill)


def test_version_that_was_written_in_part_is_not_taken_for_whole(
    library: SkillLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill = SkillFolder("guide", {"SKILL.md": TEXT.encode(), "z": b"1"})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(StoreError, match="No space left"):
            library.add(skill, "import", reason="", source="x")
    entry = library.add(skill, "import", reason="", source="x")
    assert library.load("guide", entry.version) == skill


def fail(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_skill_without_an_entry_is_not_listed(library: SkillLibrary) -> None:
    (library.folder / "empty").mkdir()
    (library.folder / "empty" / "ledger.jsonl").touch()
    assert library.names() == ["guide"]


def test_unknown_skill_names_the_known(library: SkillLibrary) -> None:
    with pytest.raises(UserError, match="skills there: guide"):
        library.summary("other")


def test_holdout_is_refused_at_zero(tmp_path: Path) -> None:
    ledger = HoldoutLedger(tmp_path)
    first = ledger.spend(["t1", "t2"], 0.03, skill="a", version="v1")
    assert ledger.spend(["t2", "t1"], 0.03, skill="a", version="v1") == first
    assert ledger.spend(["t2", "t3"], 0.03, skill="b", version="v1").alpha == pytest.approx(0.02)
    with pytest.raises(UserError, match=r"used up.* a v1|used up"):
        ledger.spend(["t2"], 0.03, skill="c", version="v1")
    assert ledger.spend(["t3"], 0.01, skill="c", version="v1").left == pytest.approx(0.02)
    assert len(ledger.uses()) == 3


def test_another_way_of_trying_is_another_use(tmp_path: Path) -> None:
    ledger = HoldoutLedger(tmp_path)
    ledger.spend(["t"], 0.03, skill="a", version="v", design="one seed")
    assert ledger.spend(["t"], 0.03, skill="a", version="v", design="another seed").alpha == pytest.approx(0.02)


def test_holdout_ledger_whose_end_was_cut_is_noticed(tmp_path: Path) -> None:
    ledger = HoldoutLedger(tmp_path)
    first, second = (ledger.spend(["t"], 0.01, skill="a", version=version) for version in ("v1", "v2"))
    assert (first.earlier, second.earlier) == (0, 1)
    path = tmp_path / "skills" / "holdouts.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(StoreError, match="cut off"):
        ledger.require_uses([first.digest, second.digest])
