from metric import celsius


def test_freezing():
    assert celsius(32) == 0


def test_boiling():
    assert celsius(212) == 100
