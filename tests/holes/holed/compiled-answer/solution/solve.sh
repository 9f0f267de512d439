#!/bin/sh
cat > /workspace/luhn.py <<'PYTHON'
def checksum(digits: str) -> bool:
    """Whether the last digit is the check digit of those before it."""
    odd = [int(digit) for digit in digits[-1::-2]]
    even = [sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2]]
    return sum(odd + even) % 10 == 0
PYTHON
