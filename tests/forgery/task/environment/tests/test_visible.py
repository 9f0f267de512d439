from words import plural


def test_plain() -> None:
    assert plural("tree") == "trees"


def test_ends_in_y() -> None:
    assert plural("city") == "cities"
