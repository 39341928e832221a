"""How numbers are written for people, in the terminal and in every table."""

import math

from hypercrl.durations import UNKNOWN as UNDEFINED
from hypercrl.durations import duration

__all__ = ["UNDEFINED", "count", "duration", "number", "percent", "seeds", "size", "spread"]


def number(value: float, like: float | None = None) -> str:
    """A return or an error with the digits that matter, or with as many decimals as another."""
    return _fixed(value, _decimals(value if like is None else like))


def spread(mean: float, deviation: float | None) -> str:
    """Mean ± standard deviation, both with the mean's decimals."""
    if deviation is None:
        return number(mean)
    return f"{number(mean)} ± {number(deviation, like=mean)}"


def _decimals(value: float) -> int:
    """Two or three digits that count; the bounds are where rounding adds a digit."""
    for bound, decimals in ((99.95, 0), (0.995, 1), (0.0995, 2)):
        if abs(value) >= bound:
            return decimals
    return 3 if value else 0


def _fixed(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return UNDEFINED
    text = f"{value:.{decimals}f}"
    return "0" if float(text) == 0 else text.replace("-", "−")


def percent(value: float, like: float | None = None) -> str:
    """A ratio in whole per cent, whatever others look like."""
    return _fixed(100 * value, 0)


def percent_spread(mean: float, deviation: float | None) -> str:
    """Mean ± standard deviation in whole per cent."""
    return percent(mean) if deviation is None else f"{percent(mean)} ± {percent(deviation)}"


def out_of(found: float, total: int) -> str:
    """How many of so many; a mean over seeds may be between two whole numbers."""
    return f"{found:.2g} of {total}" if math.isfinite(found) else UNDEFINED


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


def seeds(values: tuple[int, ...]) -> str:
    """Which seeds stand behind a number."""
    return f"seed {values[0]}" if len(values) == 1 else "seeds " + ", ".join(map(str, values))
