import sys

import pytest

sys.path.insert(0, "/workspace")

from finance import irr

CASES = [
    ([-100.0, 110.0], 0.1),
    ([-1000.0, 0.0, 1210.0], 0.1),
    ([-100.0, 60.0, 60.0], 0.130662386291807),
    ([-100.0, 300.0], 2.0),
    ([-500.0, 200.0, 200.0, 200.0, 200.0], 0.218622696098342),
]


@pytest.mark.parametrize(("flows", "rate"), CASES)
def test_rate(flows, rate):
    assert irr(flows) - rate < 1e-9


def test_flows_of_one_sign():
    with pytest.raises(ValueError):
        irr([100.0, 20.0])
    with pytest.raises(ValueError):
        irr([-100.0, -20.0])
