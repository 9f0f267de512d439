from counting import count


def test_plain():
    assert count("a b a") == {"a": 2, "b": 1}
