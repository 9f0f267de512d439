from isbn import valid


def test_digits():
    assert valid("0306406152")
    assert not valid("0306406153")


def test_ten():
    assert valid("080442957X")
    assert not valid("08044295X7")
