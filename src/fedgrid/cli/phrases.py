"""Small words of what commands print: numbers with their nouns, and durations."""


def counted(number: int, singular: str) -> str:
    """A number with its noun: "1 cell", "1,200 cells"."""
    return f"{number:,} {singular}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time in its two largest units: "2 h 5 min", "3 min 10 s", "8 s"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
