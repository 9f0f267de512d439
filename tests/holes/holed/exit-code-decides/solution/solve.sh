#!/bin/sh
cat > /workspace/caesar.py <<'PYTHON'
def shift(text: str, by: int) -> str:
    """Moves letters by some places."""
    moved = []
    for letter in text:
        base = ord("a") if "a" <= letter <= "z" else ord("A") if "A" <= letter <= "Z" else None
        moved.append(letter if base is None else chr(base + (ord(letter) - base + by) % 26))
    return "".join(moved)
PYTHON
