import sys

import pytest

sys.path.insert(0, "/workspace")

from finance import irr

CASES = [
    ([-100.0, 110.0], 0.1),
    ([-1000.0, 0.0, 1210.0], 0.1),
    ([-100.0, 60.0, 60.0], 0.130662386291807),
    ([-100.0, 300.0], 2.0),
    ([-100.0, 50.0], -0.5),
    ([-1.0, 0.2], -0.8),
    ([-10.0, 100.0], 9.0),
    ([-500.0, 200.0, 200.0, 200.0, 200.0], 0.218622696098342),
]


@pytest.mark.parametrize(("flows", "rate"), CASES)
def test_rate(flows, rate):
    assert irr(flows) == pytest.approx(rate, abs=1e-9, rel=0)


def test_flows_of_one_sign():
    with pytest.raises(ValueError):
        irr([100.0, 20.0])
    with pytest.raises(ValueError):
        irr([-100.0, -20.0])
    with pytest.raises(ValueError):
        irr([0.0, 50.0])
    with pytest.raises(ValueError):
        irr([-50.0, 0.0])
