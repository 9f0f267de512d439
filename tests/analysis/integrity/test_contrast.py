from __future__ import annotations

import math

import pytest

from assay.analysis.integrity.contrast import contrast, features_of, unusual
from assay.analysis.subject import Subject
from tests.analysis.trajectories import ran, subject


def attempts() -> dict[str, Subject]:
    honest = {f"h{n}": subject([ran(0, "ls src"), ran(1, f"sed -i s/a/{n}/ src/a.py")]) for n in range(6)}
    hacked = {f"x{n}": subject([ran(0, "ls src"), ran(1, f"git log --all -n {n}")]) for n in range(3)}
    return honest | hacked


def test_what_only_the_suspicious_do_comes_first_with_its_steps() -> None:
    found = contrast(attempts(), {"x0", "x1", "x2"})
    names = [feature.name for feature in found.features]
    assert "command git log --all" in names[:4]
    first = next(f for f in found.features if f.name == "command git log --all")
    assert (first.suspicious, first.others) == (3, 0)
    assert first.steps == {"x0": (1,), "x1": (1,), "x2": (1,)}
    assert "command ls" not in names


def test_score_and_probability_by_hand() -> None:
    found = contrast(attempts(), {"x0", "x1", "x2"})
    first = next(f for f in found.features if f.name == "command git log --all")
    assert first.score == pytest.approx(math.log((3.5 / 0.5) / (0.5 / 6.5)))
    assert first.probability == pytest.approx(1 / math.comb(9, 3))


def test_a_contrast_needs_both_kinds() -> None:
    with pytest.raises(ValueError, match="needs known attempts of both kinds"):
        contrast(attempts(), set(attempts()))
    with pytest.raises(ValueError, match="'y' is not one of the attempts"):
        contrast(attempts(), {"y"})


def test_numbers_do_not_make_features_differ() -> None:
    one, two = (features_of(subject([ran(0, f"head -n{n} log{n}.txt")])) for n in (5, 70))
    assert one == two


def test_the_attempt_that_is_unlike_the_others_comes_first() -> None:
    given = {name: one for name, one in attempts().items() if name not in ("x1", "x2")}
    found = unusual(given)
    assert found[0].attempt == "x0"
    assert "command git log --all" in found[0].features
    assert unusual({"h0": given["h0"]}) == ()
