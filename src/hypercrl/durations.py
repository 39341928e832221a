"""How a span of time is written: in the terminal, in tables and on the page."""

import math

UNKNOWN = "–"


def duration(seconds: float) -> str:
    """A span of time in the unit that suits it."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if 0 < seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
