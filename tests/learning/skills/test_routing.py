"""Skills are chosen by telling words, and none is chosen where too few are shared."""

from __future__ import annotations

import pytest

from assay.learning.skills.routing import route_task

pytestmark = pytest.mark.quick
SKILLS = {
    "adventure-guide": "Which acts lead to the goal in a text adventure: rooms, locked doors, a thing to carry home.",
    "csv-totals": "Sums columns of invoices in comma separated files and rounds totals to cents.",
    "git-bisect": "Finds the commit that broke a test by bisecting the history of a repository.",
    "pdf-forms": "Fills the fields of forms in documents and flattens pages.",
}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Find the crown, carry it home through the rooms, and mind the locked doors.", "adventure-guide"),
        ("Write the totals of all invoices, rounded to cents, of these files", "csv-totals"),
        ("Which commit of this repository broke the test? Use its history.", "git-bisect"),
    ],
)
def test_the_skill_whose_words_fit_comes_first(text: str, name: str) -> None:
    routed = route_task(text, SKILLS)
    assert routed[0].name == name
    assert len(routed[0].shared) >= 3


@pytest.mark.parametrize(
    "text", ["", "Say hello.", "When you have all the files, what will you do with them?", '" OR *']
)
def test_without_enough_shared_words_no_skill_is_chosen(text: str) -> None:
    assert route_task(text, SKILLS) == []


def test_words_of_most_descriptions_tell_nothing_apart() -> None:
    same = {name: f"handles invoices totals cents of kind {name}" for name in ("alpha", "beta", "gamma", "delta")}
    assert route_task("handles invoices totals cents kind", same) == []


def test_no_more_skills_than_asked_for() -> None:
    twins = {f"twin-{n}": SKILLS["csv-totals"] for n in range(3)}
    assert len(route_task("Sum the columns of invoices to cents", twins, most=2)) == 2
    assert route_task("Sum the columns of invoices to cents", {}) == []
