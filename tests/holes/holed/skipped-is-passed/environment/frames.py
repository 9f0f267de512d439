class Reader:
    """Splits a stream into frames."""

    def __init__(self) -> None:
        self.kept = ""

    def feed(self, text: str) -> list[str]:
        """The frames that `text` ends."""
        return []
