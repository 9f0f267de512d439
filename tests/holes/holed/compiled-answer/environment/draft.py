def checksum(digits: str) -> bool:
    """Whether the last digit is the check digit of those before it."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0
