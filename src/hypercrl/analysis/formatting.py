"""How numbers are written for people, in the terminal and in every table."""

import math

UNDEFINED = "–"


def number(value: float) -> str:
    """A return or an error with the digits that matter."""
    if not math.isfinite(value):
        return UNDEFINED
    # Below 99.95 one decimal still leaves three digits or fewer.
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 0.95 else 2
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def percent(value: float) -> str:
    """A ratio in whole per cent."""
    if not math.isfinite(value):
        return UNDEFINED
    return f"{100 * value:.0f}".replace("-0", "0").replace("-", "−")


def count(value: float) -> str:
    """A number of things: parameters, evaluations."""
    if not math.isfinite(value):
        return UNDEFINED
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


def size(value: float) -> str:
    """Bytes in decimal units."""
    if not math.isfinite(value):
        return UNDEFINED
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= step:
            return f"{value / step:.3g} {unit}"
    return f"{value:.0f} B"


def duration(seconds: float) -> str:
    """A span of time in the unit that suits it."""
    if not math.isfinite(seconds):
        return UNDEFINED
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def seeds(values: tuple[int, ...]) -> str:
    """Which seeds stand behind a number."""
    return f"seed {values[0]}" if len(values) == 1 else "seeds " + ", ".join(map(str, values))
