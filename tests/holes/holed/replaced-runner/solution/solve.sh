#!/bin/sh
cat > /workspace/isbn.py <<'PYTHON'
def valid(text: str) -> bool:
    """Whether ten characters are an ISBN."""
    if len(text) != 10 or not text[:9].isdigit() or text[9] not in "0123456789X":
        return False
    values = [10 if digit == "X" else int(digit) for digit in text]
    return sum((10 - place) * value for place, value in enumerate(values)) % 11 == 0
PYTHON
