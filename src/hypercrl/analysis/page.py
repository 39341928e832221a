"""The report page: fragments of HTML from tables, figures, highlights and videos.

One file that needs no server and no network: style, script, drawings, downloads and (up to a
limit) videos are inside it.
"""

import base64
import html
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.drawing import Rendered
from hypercrl.analysis.highlights import Highlight, find_highlights
from hypercrl.analysis.palette import Colour, css_variables
from hypercrl.analysis.rollouts import VideoShelf, filmed_tasks, scenes_of_task
from hypercrl.analysis.table_formats import Table

# Colours of the page that no figure uses.
_PAGE_COLOURS = {
    "ground": Colour("#f5f6f8", "#0f1217"),
    "tint": Colour("#e9ecf1", "#232935"),
    "tint-faint": Colour("#f8f9fb", "#1b2029"),
    "accent": Colour("#2459c8", "#8ab0ff"),
}

# What stands together, in reading order: figure, tables, tables behind a fold.
_BLOCKS: tuple[tuple[str, str | None, tuple[str, ...], tuple[str, ...]], ...] = (
    ("Learning curves", "learning-curves", (), ()),
    ("Retention", "retention", ("retention",), ()),
    ("Forward transfer", "forward-transfer", ("forward-transfer",), ()),
    ("Returns", "returns", ("returns",), ("matrix",)),
    ("Success", None, ("success",), ()),
    ("More metrics", None, ("metrics",), ()),
    ("Probability of improvement", None, ("improvement",), ()),
    ("Model error", "model-error", ("model-error",), ()),
    ("Cost", "cost", ("cost",), ()),
    ("Task embeddings", "embeddings", (), ()),
)


@dataclass(frozen=True)
class Chapter:
    """A comparison and everything made from it."""

    comparison: Comparison
    tables: Sequence[Table]
    figures: Sequence[Rendered]


def build_page(
    chapters: Sequence[Chapter], colours: Mapping[str, int], shelf: VideoShelf, version: str
) -> str:
    """The whole page."""
    titles = list(dict.fromkeys(chapter.comparison.title for chapter in chapters))
    links = "".join(
        f'<a href="#{c.comparison.slug}">{html.escape(_short_title(c, chapters))}</a>'
        for c in chapters
    )
    return string.Template(_resource("report.html")).substitute(
        title=html.escape(f"hypercrl report: {', '.join(titles)}"),
        heading=html.escape(_heading(titles)),
        lead=html.escape(_lead(chapters)),
        links=links,
        colours=_colour_css(),
        style=_resource("report.css"),
        script=_resource("report.js"),
        sections="\n".join(_chapter(chapter, colours, shelf) for chapter in chapters),
        footer=_footer(version),
    )


def _resource(name: str) -> str:
    return (resources.files("hypercrl.analysis") / "template" / name).read_text(encoding="utf-8")


def _colour_css() -> str:
    """Variables for light, and the same for dark: by the system's choice or the reader's."""
    named = {**css_variables(), **_PAGE_COLOURS}
    light = "".join(f"--{name}:{colour.light};" for name, colour in named.items())
    dark = "color-scheme:dark;" + "".join(f"--{n}:{c.dark};" for n, c in named.items())
    return (
        f":root{{color-scheme:light;{light}}}\n"
        "@media (prefers-color-scheme:dark){:root:not([data-theme=light]){" + dark + "}}\n"
        ":root[data-theme=dark]{" + dark + "}"
    )


def _heading(titles: Sequence[str]) -> str:
    return f"{_enumerate(titles)}: what is learnt, and what stays"


def _lead(chapters: Sequence[Chapter]) -> str:
    entries = [entry for chapter in chapters for entry in chapter.comparison.entries]
    num_runs = sum(len(entry.runs) for entry in entries)
    unfinished = sum(not run.complete for entry in entries for run in entry.runs)
    methods = len({entry.label for entry in entries})
    text = (
        f"{_count(num_runs, 'run')} of {_count(methods, 'method')}. Tasks come one after another; "
        "a method must learn each new one and still master those before. Every number names "
        "the seeds behind it."
    )
    if unfinished:
        text += f" Unfinished runs ({unfinished}) count as far as they came."
    return text


def _footer(version: str) -> str:
    return (
        f"Written by hypercrl {html.escape(version)}. Cells are mean ± sample standard deviation "
        "over seeds; IQM is the interquartile mean, its intervals are stratified bootstraps. "
        "A dash marks a ratio that is undefined because its denominator is missing, negative or "
        "near zero; the returns stand below it. The paper’s numbers (Huang et al., ICRA 2021) "
        "are for its own simulation and full budget."
    )


def _short_title(chapter: Chapter, chapters: Sequence[Chapter]) -> str:
    """A suite's name, with what tells it from others of the same name."""
    own = chapter.comparison
    rivals = [c.comparison for c in chapters if c.comparison.suite == own.suite]
    parts = [own.title]
    if len({rival.preset for rival in rivals}) > 1:
        parts.append(own.preset)
    if len({rival.tasks for rival in rivals if rival.preset == own.preset}) > 1:
        parts.append(_count(len(own.tasks), "task"))
    return ", ".join(parts)


def _chapter(chapter: Chapter, colours: Mapping[str, int], shelf: VideoShelf) -> str:
    comparison, slug = chapter.comparison, chapter.comparison.slug
    figures = {figure.name.removeprefix(f"{slug}-"): figure for figure in chapter.figures}
    tables = {table.name: table for table in chapter.tables}
    meta = (
        f"{_count(len(comparison.tasks), 'task')} · preset {comparison.preset} · "
        f"{_count(len(comparison.runs), 'run')}"
    )
    blocks = [
        _block(
            f"{slug}-{title.lower().replace(' ', '-')}",
            title,
            figures.get(figure) if figure else None,
            [tables[name] for name in shown if name in tables],
            [tables[name] for name in folded if name in tables],
            comparison,
            colours,
        )
        for title, figure, shown, folded in _BLOCKS
    ]
    blocks.append(_rollouts(comparison, colours, shelf))
    if "runs" in tables:
        blocks.append(
            _block(f"{slug}-runs", "Runs", None, [tables["runs"]], [], comparison, colours)
        )
    cards = "".join(_card(highlight, colours) for highlight in find_highlights(comparison))
    # One task that went well or badly moves a mean much more, so the tables' averages may differ.
    caption = "Interquartile means over tasks and seeds; the tables show means too."
    cards = f'<div class="cards">{cards}</div>\n<p class="caption">{caption}</p>\n' if cards else ""
    return (
        f'<section class="suite" id="{slug}" aria-labelledby="{slug}-title">\n'
        f'<div class="suite-head"><h2 id="{slug}-title">{html.escape(comparison.title)}'
        f"</h2><p>{html.escape(meta)}</p></div>\n"
        f"{cards}{_method_buttons(comparison, colours)}\n"
        + "\n".join(block for block in blocks if block)
        + "\n</section>"
    )


def _card(highlight: Highlight, colours: Mapping[str, int]) -> str:
    unit = f"<span>{html.escape(highlight.unit)}</span>" if highlight.unit else ""
    interval = f" <small>{html.escape(highlight.interval)}</small>" if highlight.interval else ""
    aside = f'<p class="other">{html.escape(highlight.aside)}</p>' if highlight.aside else ""
    return (
        f'<div class="card"><h3>{html.escape(highlight.title)}</h3>'
        f'<p class="value">{html.escape(highlight.value)}{unit}</p>'
        f'<p class="who">{_dot(colours[highlight.label])}{html.escape(highlight.label)}'
        f"{interval}</p>{aside}</div>"
    )


def _method_buttons(comparison: Comparison, colours: Mapping[str, int]) -> str:
    buttons = "".join(
        f'<button type="button" aria-pressed="true" data-series="{colours[entry.label]}">'
        f"{_dot(colours[entry.label])}{html.escape(entry.label)}</button>"
        for entry in comparison.entries
    )
    label = "Methods shown in the figures"
    return f'<div class="methods" role="group" aria-label="{label}">{buttons}</div>'


def _block(
    anchor: str,
    title: str,
    figure: Rendered | None,
    shown: Sequence[Table],
    folded: Sequence[Table],
    comparison: Comparison,
    colours: Mapping[str, int],
) -> str:
    if figure is None and not shown:
        return ""
    parts = [f'<section class="block" id="{anchor}"><h3>{html.escape(title)}</h3>']
    if figure:
        parts.append(_figure(figure))
    for table in shown:
        heading = f"<h4>{html.escape(table.title)}</h4>" if table.title != title else ""
        parts.append(heading + _table(table, comparison, colours))
    for table in folded:
        summary = f"<summary>{html.escape(table.title)}</summary>"
        parts.append(f"<details>{summary}{_table(table, comparison, colours)}</details>")
    return "\n".join([*parts, "</section>"])


def _figure(figure: Rendered) -> str:
    downloads = _downloads(
        (f"{figure.name}.svg", "image/svg+xml", figure.svg.encode()),
        (f"{figure.name}.png", "image/png", figure.png),
    )
    few = " two" if len(figure.panels) == 2 else ""
    return (
        f'<figure data-figure="{figure.name}">'
        f'<figcaption class="reading">{html.escape(figure.reading)}</figcaption>'
        f'<div class="panels{few}" role="img" aria-label="{html.escape(figure.alt)}">'
        f"{''.join(figure.panels)}</div></figure>"
        f'<p class="sources">Figure{downloads}</p>'
    )


def _table(table: Table, comparison: Comparison, colours: Mapping[str, int]) -> str:
    stem = f"{comparison.slug}-{table.name}"
    downloads = _downloads(
        (f"{stem}.csv", "text/csv", table.to_csv().encode()),
        (f"{stem}.md", "text/markdown", table.to_markdown().encode()),
        (f"{stem}.tex", "application/x-tex", table.to_latex().encode()),
    )
    marks = {label: _dot(index) for label, index in colours.items()}
    return (
        f'<p class="reading">{html.escape(table.reading)}</p>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{html.escape(table.title)}" '
        f'data-table="{stem}">{table.to_html(marks)}</div>'
        f'<p class="sources">Runs: {html.escape(table.sources)}{downloads}</p>'
    )


def _downloads(*files: tuple[str, str, bytes]) -> str:
    links = []
    for name, kind, content in files:
        encoded = base64.b64encode(content).decode("ascii")
        ending = name.rsplit(".", 1)[1].upper()
        links.append(
            f'<a download="{name}" href="data:{kind};base64,{encoded}" '
            f'aria-label="Download {name}">{ending}</a>'
        )
    return f'<span class="downloads">{"".join(links)}</span>'


def _rollouts(comparison: Comparison, colours: Mapping[str, int], shelf: VideoShelf) -> str:
    tasks = filmed_tasks(comparison)
    if not tasks:
        return ""
    tabs, walls = [], []
    for order, task in enumerate(tasks):
        wall = f"{comparison.slug}-wall-{task}"
        tabs.append(
            f'<button type="button" data-wall="{wall}" aria-pressed="{str(order == 0).lower()}">'
            f"Task {task + 1}: {html.escape(comparison.tasks[task])}</button>"
        )
        scenes = []
        for scene in scenes_of_task(comparison, task):
            clips = "".join(
                f'<figure><video muted loop playsinline tabindex="0" preload="metadata" '
                f'aria-label="{html.escape(clip.alt)}" '
                f'data-src="{shelf.place(clip.file, f"{wall}-{scene.slug}-{k}")}"></video>'
                f"<figcaption>{html.escape(clip.caption)}</figcaption></figure>"
                for k, clip in enumerate(scene.clips)
            )
            heading = f"<h4>{_dot(colours[scene.label])}{html.escape(scene.label)}</h4>"
            scenes.append(f'<div>{heading}<div class="pair">{clips}</div></div>')
        hidden = "" if order == 0 else " hidden"
        walls.append(f'<div class="wall" id="{wall}"{hidden}>{"".join(scenes)}</div>')
    return (
        f'<section class="block rollouts" id="{comparison.slug}-rollouts"><h3>Rollouts</h3>'
        '<p class="reading">The robot on one task, when it had just been learnt and after later '
        "tasks, as far as the runs were filmed. A method that forgets no longer knows what to "
        "do.</p>"
        f'<div class="wall-bar" role="group" aria-label="Task shown">{"".join(tabs)}'
        f'<button type="button" class="play">Play all</button></div>{"".join(walls)}</section>'
    )


def _dot(index: int) -> str:
    return f'<span class="dot" style="--dot:var(--series-{index})"></span>'


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _enumerate(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
