from datetime import date, timedelta


def monday(day: date) -> date:
    """The Monday of the week that a day is in."""
    return day - timedelta(days=day.isoweekday())
