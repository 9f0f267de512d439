def cents(amount: str) -> int:
    """An amount in whole cents."""
    raise NotImplementedError
