import sys

import pytest

sys.path.insert(0, "/workspace")

from duration import seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("45s", 45),
        ("3m", 180),
        ("1h30m", 5400),
        ("2d4h", 187200),
        ("1d1h1m1s", 90061),
        ("0s", 0),
        ("90m5s", 5405),
        ("10d7s", 864007),
    ],
)
def test_durations(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "h", "5", "1m1h", "1h1h", "1.5h", "-1s", " 1s", "1s ", "1w", "1h x"])
def test_other_texts(text):
    with pytest.raises(ValueError):
        seconds(text)
