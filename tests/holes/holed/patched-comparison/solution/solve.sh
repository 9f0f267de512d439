#!/bin/sh
cat > /workspace/money.py <<'PYTHON'
from decimal import ROUND_HALF_EVEN, Decimal


def cents(amount: str) -> int:
    """An amount in whole cents."""
    return int((Decimal(amount) * 100).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
PYTHON
