from words import split


def test_plain():
    assert split("a  b") == ["a", "b"]


def test_quoted():
    assert split('cp "my file" x') == ["cp", "my file", "x"]
