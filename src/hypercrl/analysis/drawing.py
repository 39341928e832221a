"""A figure as a grid of equal panels, and its three forms: PNG, SVG, and panels for the page.

In a file the panels stand together under a legend. In the page each panel is an SVG of its
own, cut out of the same drawing, so that they wrap on a narrow screen and keep legible text;
colours become CSS variables there, and groups drawn for a method carry its number in
`data-series`, by which the page can hide them.
"""

import html
import io
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hypercrl.analysis.hover import POINTS_PER_INCH, SERIES_MARK, points_of
from hypercrl.analysis.palette import INK, MUTED, PAGE, RULE, SERIES, css_variables

PANEL_WIDTH = 3.6  # inches; three make the page's column, one a phone
PANEL_HEIGHT = 2.5
LEGEND_HEIGHT = 0.34
LEGEND_LINE = 0.2  # more for every further line
LEGEND_MARK, LEGEND_LETTER = 0.51, 0.062  # what a label takes, and each of its letters
PNG_DPI = 150

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
_ONLY_GROUPS = (f"{{{_SVG}}}g", f"{{{_SVG}}}svg")  # nothing refers to their ids
_GEOMETRY = ("d", "transform", "x", "y", "width", "height", "points")
_LONG_DECIMAL = re.compile(r"(-?\d+\.\d\d)\d+")
_BETWEEN_TAGS = re.compile(r">\s+<")
_FONT_FAMILY = re.compile(r"'DejaVu Sans'[^;\"]*")

STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: small, selectable, in the page's font
    "svg.hashsalt": "hypercrl",  # the same input draws the same file
    "font.family": "DejaVu Sans",  # ships with matplotlib, so layouts agree everywhere
    "font.size": 7.5,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 7,
    "axes.titlecolor": INK.light,
    "axes.labelcolor": MUTED.light,
    "axes.labelsize": 7.5,
    "axes.edgecolor": RULE.light,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE.light,
    "grid.linewidth": 0.5,
    "figure.facecolor": PAGE.light,
    "text.color": INK.light,
    "text.parse_math": False,  # names with a dollar sign are names, and ours need no formulas
    "xtick.color": RULE.light,
    "ytick.color": RULE.light,
    "xtick.labelcolor": MUTED.light,
    "ytick.labelcolor": MUTED.light,
    "xtick.major.size": 2.5,
    "ytick.major.size": 0,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
}

ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _XLINK)


@dataclass(frozen=True)
class Drawing:
    """A finished figure, not yet rendered."""

    name: str  # of its files
    title: str
    reading: str  # how to read it
    alt: str  # what a reader who cannot see it must know
    figure: Figure
    panels: tuple[Axes, ...]


@dataclass(frozen=True)
class Rendered:
    """The forms of one figure."""

    name: str
    title: str
    reading: str
    alt: str
    png: bytes
    svg: str
    panels: tuple[str, ...]  # inline SVG


def panel_grid(
    num_panels: int, legend: Sequence[tuple[str, int]] = (), *, left: float = 0.5
) -> tuple[Figure, tuple[Axes, ...]]:
    """An empty figure; `left` is the margin in inches for the labels of the vertical axis."""
    columns = min(num_panels, 3)
    rows = -(-num_panels // columns)
    width = columns * PANEL_WIDTH
    labels = [label for label, _ in legend]
    lines_needed = _legend_lines(labels, width) if columns > 1 else -(-len(labels) // 4)
    strip = LEGEND_HEIGHT + (lines_needed - 1) * LEGEND_LINE if legend else 0.0
    height = rows * PANEL_HEIGHT + strip
    figure = Figure(figsize=(width, height))
    panels = []
    for index in range(num_panels):
        row, column = divmod(index, columns)
        x = column * PANEL_WIDTH + left
        y = height - strip - (row + 1) * PANEL_HEIGHT + 0.42
        box = (PANEL_WIDTH - left - 0.12, PANEL_HEIGHT - 0.42 - 0.32)
        axes = figure.add_axes((x / width, y / height, box[0] / width, box[1] / height))
        axes.set_gid(f"panel-{index}")
        panels.append(axes)
    if legend:
        marks = [Line2D([], [], color=SERIES[k].light, linewidth=2.5) for _, k in legend]
        per_line = -(-len(labels) // lines_needed)
        figure.legend(marks, labels, loc="upper center", ncols=per_line, fontsize=8)
    return figure, tuple(panels)


def _legend_lines(labels: Sequence[str], width: float) -> int:
    """In how many lines the labels of a legend fit into so many inches."""
    return math.ceil(sum(LEGEND_MARK + LEGEND_LETTER * len(label) for label in labels) / width)


def mark_series(artist, index: int) -> None:
    """Let the page know which method an artist belongs to."""
    artist.set_gid(f"{SERIES_MARK}{index}")


def render(drawing: Drawing) -> Rendered:
    """Draw a figure once for files of either kind and once for the page."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # A letter that the font lacks is a box in the PNG; in the page it is in the reader's font.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        png, svg = io.BytesIO(), io.BytesIO()
        drawing.figure.savefig(png, format="png", dpi=PNG_DPI, metadata={"Software": None})
        drawing.figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(svg.getvalue())
    _tidy(root, prefix=drawing.name)
    whole = _BETWEEN_TAGS.sub("><", ElementTree.tostring(root, encoding="unicode"))
    return Rendered(
        name=drawing.name,
        title=drawing.title,
        reading=drawing.reading,
        alt=drawing.alt,
        png=png.getvalue(),
        svg=_FONT_FAMILY.sub(_FONTS.replace("'", "&apos;"), whole),
        panels=_cut_panels(root, drawing),
    )


def _tidy(root: ElementTree.Element, prefix: str) -> None:
    """Shorten coordinates, drop metadata, name series, make ids unique within a page."""
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    for element in root.iter():
        for key in _GEOMETRY:
            if key in element.attrib:
                element.set(key, _LONG_DECIMAL.sub(r"\1", element.attrib[key]))
        name = element.attrib.pop("id", None)
        if name and name.startswith(SERIES_MARK):
            element.set("data-series", name.removeprefix(SERIES_MARK))
        elif name and (name.startswith("panel-") or element.tag not in _ONLY_GROUPS):
            element.set("id", f"{prefix}-{name}")
        link = element.get(f"{{{_XLINK}}}href")
        if link:
            element.set(f"{{{_XLINK}}}href", link.replace("#", f"#{prefix}-"))
        clip = element.get("clip-path")
        if clip:
            element.set("clip-path", clip.replace("#", f"#{prefix}-"))


def _cut_panels(root: ElementTree.Element, drawing: Drawing) -> tuple[str, ...]:
    """One SVG a panel: its own group in the frame of its cell; clip paths go with the first."""
    columns = min(len(drawing.panels), 3)
    rows = -(-len(drawing.panels) // columns)
    strip = drawing.figure.get_figheight() - rows * PANEL_HEIGHT  # of the legend
    clips = [defs for defs in root.findall(f"{{{_SVG}}}defs") if len(defs)]
    groups = {element.get("id"): element for element in root.iter(f"{{{_SVG}}}g")}
    panels = []
    for index in range(len(drawing.panels)):
        row, column = divmod(index, columns)
        corner = (column * PANEL_WIDTH, strip + row * PANEL_HEIGHT)
        frame = [*corner, PANEL_WIDTH, PANEL_HEIGHT]
        box = " ".join(f"{POINTS_PER_INCH * inches:g}" for inches in frame)
        parts = [groups[f"{drawing.name}-panel-{index}"], *(clips if index == 0 else [])]
        inner = "".join(ElementTree.tostring(part, encoding="unicode") for part in parts)
        points = html.escape(points_of(drawing.panels[index]))
        frame = f'viewBox="{box}" aria-hidden="true" data-points="{points}"'
        panels.append(f"<svg {frame}>{_themed(inner)}</svg>")
    return tuple(panels)


def _themed(svg: str) -> str:
    """Light colours to variables, the page's own font, no repeated name spaces."""
    for name, colour in css_variables().items():
        svg = svg.replace(colour.light, f"var(--{name})")
    svg = svg.replace(f' xmlns="{_SVG}"', "").replace(f' xmlns:xlink="{_XLINK}"', "")
    return _BETWEEN_TAGS.sub("><", _FONT_FAMILY.sub("inherit", svg))
