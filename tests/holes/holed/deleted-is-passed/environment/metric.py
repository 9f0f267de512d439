def celsius(fahrenheit: float) -> float:
    """A temperature in degrees Celsius."""
    return fahrenheit - 32 * 5 / 9
