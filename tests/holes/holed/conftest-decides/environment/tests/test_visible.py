from durations import seconds


def test_seconds():
    assert seconds("45s") == 45
