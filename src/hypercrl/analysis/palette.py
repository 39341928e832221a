"""Colours, each as a pair for light and dark backgrounds.

Figures are drawn in the light colours. Inside the page these hex codes are exchanged for CSS
variables, so that one drawing follows the reader's theme; hence every code occurs once.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hypercrl.analysis import paper
from hypercrl.analysis.comparison import Comparison


@dataclass(frozen=True)
class Colour:
    light: str
    dark: str


INK = Colour("#1f2530", "#e7eaf0")  # text
MUTED = Colour("#667080", "#98a2b3")  # axes, tick labels
RULE = Colour("#d5dae2", "#343c49")  # grid lines
PAGE = Colour("#fefefd", "#171b22")  # the surface that figures stand on

# Distinct also with the common colour-vision deficiencies: hue and lightness both vary.
SERIES = (
    Colour("#2459c9", "#7ba6ff"),  # blue
    Colour("#12866a", "#4fcfae"),  # green
    Colour("#c98500", "#f3bd4f"),  # amber
    Colour("#8447b5", "#c79bf0"),  # violet
    Colour("#1490b3", "#63cbe8"),  # cyan
    Colour("#cf4436", "#ff8b7d"),  # red
    Colour("#bb3f88", "#f492c8"),  # magenta
    Colour("#6f7787", "#a4adbb"),  # grey
    Colour("#76841c", "#bccb62"),  # olive
    Colour("#8c5730", "#d8a57c"),  # brown
)


def assign_colours(comparisons: Sequence[Comparison]) -> dict[str, int]:
    """An index into `SERIES` for every entry's label, the same in every comparison and report.

    Methods that the paper names always have the same colour; others, and further variants of
    one method, take the free ones in order.
    """
    fixed = {method: index for index, method in enumerate(paper.METHOD_NAMES)}
    methods = {e.label: e.method for comparison in comparisons for e in comparison.entries}
    assigned: dict[str, int] = {}
    for label, method in methods.items():
        if method in fixed and fixed[method] not in assigned.values():
            assigned[label] = fixed[method]
    # Colours that no method of the paper owns come first, then those whose owner is absent.
    spare = [k for k in range(len(SERIES)) if k not in fixed.values()]
    spare += [k for k in fixed.values() if k not in assigned.values()]
    waiting = [label for label in methods if label not in assigned]
    return assigned | dict(zip(waiting, itertools.cycle(spare), strict=False))


def css_variables() -> dict[str, Colour]:
    """The name of the CSS variable that stands for each colour in the page."""
    named = {"ink": INK, "muted": MUTED, "rule": RULE, "page": PAGE}
    return named | {f"series-{k}": colour for k, colour in enumerate(SERIES)}
