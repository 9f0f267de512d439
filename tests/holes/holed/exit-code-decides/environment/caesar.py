def shift(text: str, by: int) -> str:
    """Moves letters by some places."""
    raise NotImplementedError
