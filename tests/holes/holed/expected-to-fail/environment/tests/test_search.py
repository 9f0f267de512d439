from search import place


def test_there():
    assert [place([1, 3, 5, 7], value) for value in (3, 7)] == [1, 3]


def test_first():
    assert place([2, 4], 2) == 0
