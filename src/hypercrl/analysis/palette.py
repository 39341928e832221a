"""Colours, each as a pair for light and dark backgrounds.

Figures are drawn in the light colours. Inside the page these hex codes are exchanged for CSS
variables, so that one drawing follows the reader's theme; hence every code occurs once.
"""

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
    """An index into `SERIES` for every entry's label, the same in every comparison of a report.

    Methods that the paper names have the same colour in every report; others, and further
    variants of one method, take what nobody has who is seen beside them.
    """
    fixed = {method: index for index, method in enumerate(paper.METHOD_NAMES)}
    methods = {e.label: e.method for comparison in comparisons for e in comparison.entries}
    beside = [{entry.label for entry in comparison.entries} for comparison in comparisons]
    assigned: dict[str, int] = {}
    # A method as such comes before its variants, which may stand in an earlier chapter.
    for label in sorted(methods, key=lambda name: name != paper.METHOD_NAMES.get(methods[name])):
        near = set().union(*(labels for labels in beside if label in labels))
        taken = {assigned[other] for other in near if other in assigned}
        owned = {fixed[methods[other]] for other in near if methods[other] in fixed}
        # Its own first, then what no method owns, then what belongs to a method elsewhere.
        wanted = [fixed[methods[label]]] if methods[label] in fixed else []
        order = [*wanted, *sorted(range(len(SERIES)), key=lambda k: (k in fixed.values(), k))]
        free = [k for k in order if k not in taken and (k in wanted or k not in owned)]
        free += [k for k in order if k not in taken]
        assigned[label] = free[0] if free else len(assigned) % len(SERIES)
    return assigned


def css_variables() -> dict[str, Colour]:
    """The name of the CSS variable that stands for each colour in the page."""
    named = {"ink": INK, "muted": MUTED, "rule": RULE, "page": PAGE}
    return named | {f"series-{k}": colour for k, colour in enumerate(SERIES)}
