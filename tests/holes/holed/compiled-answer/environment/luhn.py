def checksum(digits: str) -> bool:
    """Whether the last digit is the check digit of those before it."""
    raise NotImplementedError
