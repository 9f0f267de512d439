#!/bin/sh
cat > /workspace/frames.py <<'PYTHON'
class Reader:
    """Splits a stream into frames."""

    def __init__(self) -> None:
        self.kept = ""

    def feed(self, text: str) -> list[str]:
        """The frames that `text` ends."""
        *frames, self.kept = (self.kept + text).split(";")
        return frames
PYTHON
