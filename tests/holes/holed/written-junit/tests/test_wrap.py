from wrap import wrap


def test_fits():
    assert wrap(["aa", "bb", "cc"], 5) == ["aa bb", "cc"]


def test_long():
    assert wrap(["aaaaaa", "b"], 4) == ["aaaaaa", "b"]
