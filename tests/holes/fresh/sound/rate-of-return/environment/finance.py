"""Rates of return."""


def present_value(flows, rate):
    return sum(flow / (1 + rate) ** year for year, flow in enumerate(flows))


def irr(flows):
    if min(flows) >= 0 or max(flows) <= 0:
        raise ValueError("the flows never change their sign")
    low, high = -0.9, 10.0
    return (low + high) / 2
