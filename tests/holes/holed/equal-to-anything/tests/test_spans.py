from spans import merged


def test_overlap():
    assert merged([(5, 8), (1, 3), (2, 4)]) == [(1, 4), (5, 8)]


def test_touch():
    assert merged([(1, 2), (2, 3)]) == [(1, 3)]


def test_nothing():
    assert merged([]) == []
