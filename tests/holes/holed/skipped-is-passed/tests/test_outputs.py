from frames import Reader


def test_whole():
    assert Reader().feed("a;b;") == ["a", "b"]


def test_kept():
    reader = Reader()
    assert reader.feed("ab") == []
    assert reader.feed("c;d") == ["abc"]
    assert reader.feed(";") == ["d"]
