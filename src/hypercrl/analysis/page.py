"""The report page: what its templates show, from tables, figures, highlights and videos.

One file that needs no server and no network: style, script, drawings, downloads and (up to a
limit) videos are inside it. `template/report.html` is the page, `chapter.html` one suite in it,
`parts.html` what repeats; everything they write is escaped, but for the drawings.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from hypercrl.analysis.comparison import Comparison
from hypercrl.analysis.drawing import Rendered
from hypercrl.analysis.highlights import find_highlights
from hypercrl.analysis.palette import Colour, css_variables
from hypercrl.analysis.rollouts import VideoShelf, filmed_tasks, scenes_of_task
from hypercrl.analysis.table_formats import Table
from hypercrl.errors import printable

# Colours of the page that no figure uses.
_PAGE_COLOURS = {
    "ground": Colour("#f5f6f8", "#0f1217"),
    "tint": Colour("#e9ecf1", "#232935"),
    "tint-faint": Colour("#f8f9fb", "#1b2029"),
    "accent": Colour("#2459c8", "#8ab0ff"),
}

# What stands together, in reading order: figure, tables, tables behind a fold.
_BLOCKS: tuple[tuple[str, str | None, tuple[str, ...], tuple[str, ...]], ...] = (
    ("Ranking", "normalised", ("ranking",), ("normalised",)),
    ("Performance profile", "profile", (), ()),
    ("Learning curves", "learning-curves", (), ()),
    ("Retention", "retention", ("retention",), ("retention-plain",)),
    ("Forward transfer", "forward-transfer", ("forward-transfer",), ("forward-transfer-plain",)),
    ("Returns", "returns", ("returns",), ("matrix",)),
    ("Success", None, ("success",), ()),
    ("More metrics", None, ("metrics",), ()),
    ("Probability of improvement", None, ("improvement",), ()),
    ("Model error", "model-error", ("model-error",), ()),
    ("Cost", "cost", ("cost",), ()),
    ("Task embeddings", "embeddings", (), ()),
)


# Behind the table of runs.
RUN_TABLES = ("folders", "settings", "all-settings")


@dataclass(frozen=True)
class Chapter:
    """A comparison and everything made from it."""

    comparison: Comparison
    tables: Sequence[Table]
    figures: Sequence[Rendered]


def build_page(
    chapters: Sequence[Chapter],
    colours: Mapping[str, int],
    shelf: VideoShelf,
    version: str,
    unreadable: Mapping[Path, str] | None = None,
) -> str:
    """The whole page; `unreadable` says why folders were left out."""
    comparisons = [chapter.comparison for chapter in chapters]
    runs = [run for comparison in comparisons for run in comparison.runs]
    page = _templates().get_template("report.html")
    return page.render(
        titles=list(dict.fromkeys(comparison.title for comparison in comparisons)),
        num_runs=len(runs),
        num_methods=len({entry.label for c in comparisons for entry in c.entries}),
        num_unfinished=sum(not run.complete for run in runs),
        num_diverged=sum(run.diverged is not None for run in runs),
        unreadable=[printable(reason) for reason in (unreadable or {}).values()],
        chapters=[_describe(chapter, comparisons, shelf) for chapter in chapters],
        colours=colours,
        palette={**css_variables(), **_PAGE_COLOURS},
        version=version,
    )


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hypercrl.analysis", "template"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"base64": _base64, "counted": _count, "enumerated": _enumerate}
    return environment


def _describe(
    chapter: Chapter, comparisons: Sequence[Comparison], shelf: VideoShelf
) -> dict[str, Any]:
    """What `chapter.html` shows."""
    comparison = chapter.comparison
    blocks = [_block(chapter, *block) for block in _BLOCKS]
    return {
        "slug": comparison.slug,
        "title": comparison.title,
        "short_title": _short_title(comparison, comparisons),
        "preset": comparison.preset,
        "tasks": comparison.tasks,
        "num_runs": len(comparison.runs),
        "labels": [entry.label for entry in comparison.entries],
        "highlights": find_highlights(comparison),
        "blocks": [block for block in blocks if block],
        "walls": [_wall(comparison, task, shelf) for task in filmed_tasks(comparison)],
        "runs": _block(chapter, "Runs", None, ("runs",), RUN_TABLES),
    }


def _short_title(own: Comparison, comparisons: Sequence[Comparison]) -> str:
    """A suite's name, with what tells it from others of the same name."""
    rivals = [comparison for comparison in comparisons if comparison.suite == own.suite]
    parts = [own.title]
    if len({rival.preset for rival in rivals}) > 1:
        parts.append(own.preset)
    if len({rival.tasks for rival in rivals if rival.preset == own.preset}) > 1:
        parts.append(_count(len(own.tasks), "task"))
    return ", ".join(parts)


def _block(
    chapter: Chapter, title: str, figure: str | None, shown: Sequence[str], folded: Sequence[str]
) -> dict[str, Any] | None:
    """A figure and tables by their names, as far as the chapter has them."""
    figures = {f.name.removeprefix(f"{chapter.comparison.slug}-"): f for f in chapter.figures}
    tables = {table.name: table for table in chapter.tables}
    found = {
        "title": title,
        "figure": figures.get(figure) if figure else None,
        "shown": [tables[name] for name in shown if name in tables],
        "folded": [tables[name] for name in folded if name in tables],
    }
    return found if found["figure"] or found["shown"] else None


def _wall(comparison: Comparison, task: int, shelf: VideoShelf) -> dict[str, Any]:
    """The videos of one task, each with its address."""
    name = f"{comparison.slug}-wall-{task}"
    scenes = []
    for scene in scenes_of_task(comparison, task):
        stem = f"{name}-{scene.slug}"
        clips = [
            (clip, shelf.place(clip.file, f"{stem}-{k}")) for k, clip in enumerate(scene.clips)
        ]
        scenes.append((scene.label, clips))
    return {"id": name, "title": f"Task {task + 1}: {comparison.tasks[task]}", "scenes": scenes}


def _base64(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return base64.b64encode(data).decode("ascii")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _enumerate(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
