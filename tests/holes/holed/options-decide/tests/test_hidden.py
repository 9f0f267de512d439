from counting import count


def test_case():
    assert count("The the THE end") == {"the": 3, "end": 1}
