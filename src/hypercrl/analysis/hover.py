"""What a figure's marks stand for, so that the page can say it where the pointer is.

Of every line, dot and bar that belongs to a method: where it is in the panel's SVG, and its value
as the axes would write it. The page finds the nearest one; files of the figure do not have it.
"""

import json
import math

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter

from hypercrl.analysis.formatting import number

POINTS_PER_INCH = 72  # the unit of matplotlib's SVG
MOST_POINTS = 200  # of one line; a hand is not steadier than that

SERIES_MARK = "series-"


def points_of(axes: Axes) -> str:
    """JSON: for each mark x and y in the figure's SVG, the method's number, and what to say."""
    found = []
    for artist in (*axes.lines, *axes.patches):
        gid = artist.get_gid() or ""
        if not gid.startswith(SERIES_MARK):
            continue
        series = int(gid.removeprefix(SERIES_MARK))
        for x, y in _data(artist):
            if math.isfinite(x) and math.isfinite(y):
                found.append([*_place(axes, x, y), series, _say(axes, x, y)])
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _data(artist: Artist) -> np.ndarray:
    """A line's points, or where a bar ends."""
    if isinstance(artist, Line2D):
        points = np.asarray(artist.get_xydata(), float)
        return points[:: -(-len(points) // MOST_POINTS)] if len(points) else points
    if isinstance(artist, Rectangle):
        return np.array(
            [[artist.get_x() + artist.get_width(), artist.get_y() + artist.get_height() / 2]]
        )
    return np.empty((0, 2))


def _place(axes: Axes, x: float, y: float) -> list[float]:
    figure = axes.get_figure()
    assert figure is not None  # axes of ours are always in one
    across, up = axes.transData.transform((x, y)) * POINTS_PER_INCH / figure.dpi
    return [round(across, 1), round(figure.bbox.height * POINTS_PER_INCH / figure.dpi - up, 1)]


def _say(axes: Axes, x: float, y: float) -> str:
    """The value with its unit, and where on the other axis; a row of names needs no number."""
    if _is_named(axes.yaxis):
        return _with_unit(number(x), axes.get_xlabel())
    value = _with_unit(number(y), axes.get_ylabel())
    where = _name(axes.xaxis, x) if _is_named(axes.xaxis) else f"{x:,.6g}".replace(",", " ")
    return f"{value} at {_with_unit(where, axes.get_xlabel())}"


def _is_named(axis: Axis) -> bool:
    """Whether its ticks were given with labels."""
    return isinstance(axis.get_major_locator(), FixedLocator) and isinstance(
        axis.get_major_formatter(), FuncFormatter
    )


def _name(axis: Axis, value: float) -> str:
    """The label of the nearest tick."""
    ticks = np.asarray(axis.get_ticklocs(), float)
    nearest = int(np.argmin(np.abs(ticks - value)))
    return axis.get_major_formatter()(ticks[nearest], nearest)


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}".strip()
