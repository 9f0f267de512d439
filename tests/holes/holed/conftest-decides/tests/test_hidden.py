from durations import seconds


def test_minutes():
    assert seconds("1h30m") == 5400


def test_all():
    assert seconds("2h3m4s") == 7384
