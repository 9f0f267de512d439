def pack(text: str) -> str:
    """The run-length code of a text of letters."""
    raise NotImplementedError
