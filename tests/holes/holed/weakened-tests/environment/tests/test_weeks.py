from datetime import date

from weeks import monday


def test_within():
    assert monday(date(2024, 2, 29)) == date(2024, 2, 26)


def test_itself():
    assert monday(date(2024, 2, 26)) == date(2024, 2, 26)


def test_sunday():
    assert monday(date(2024, 3, 3)) == date(2024, 2, 26)
