"""The life of a skill: ledger, edits, refused edits, retirement, holdouts."""

from __future__ import annotations

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


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden", "a" * 200])
def test_name_is_no_path(library: SkillLibrary, name: str) -> None:
    with pytest.raises(UserError, match="cannot name a skill"):
        library.summary(name)


def test_unknown_skill_names_the_known(library: SkillLibrary) -> None:
    with pytest.raises(UserError, match="there are guide"):
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
