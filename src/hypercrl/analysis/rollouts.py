"""Rollout videos side by side: each method on each task, just learnt and after all tasks."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypercrl import reading, writing
from hypercrl.analysis.comparison import Comparison, Entry

LARGEST_VIDEO = 1_000_000_000  # bytes
EMBED_LIMIT = 24_000_000
"""Bytes of video that are written into the page itself; what exceeds it is put beside it."""


@dataclass(frozen=True)
class Clip:
    """One video and what it shows."""

    caption: str
    alt: str
    file: Path


@dataclass(frozen=True)
class Scene:
    """One method on one task."""

    label: str
    clips: tuple[Clip, ...]

    @property
    def slug(self) -> str:
        """For file names."""
        return re.sub(r"[^a-z0-9]+", "-", self.label.lower()).strip("-")


@dataclass
class VideoShelf:
    """Decides where a video goes: into the page while it fits, else into a folder beside it."""

    folder: Path
    room: int = EMBED_LIMIT
    beside: list[Path] = field(default_factory=list)

    def place(self, file: Path, name: str) -> str:
        """The address under which the page finds the video."""
        content = reading.read_bytes(file, LARGEST_VIDEO)
        if len(content) <= self.room:
            self.room -= len(content)
            return f"data:video/mp4;base64,{base64.b64encode(content).decode('ascii')}"
        target = writing.make_folder(self.folder) / f"{name}.mp4"
        writing.replace(target, content)
        self.beside.append(target)
        return f"{self.folder.name}/{target.name}"


def scenes_of_task(comparison: Comparison, task: int) -> list[Scene]:
    """What every method does on a task, from the first seed that was filmed."""
    scenes = [_scene(entry, comparison.tasks[task], task) for entry in comparison.entries]
    return [scene for scene in scenes if scene.clips]


def _scene(entry: Entry, name: str, task: int) -> Scene:
    for run in entry.runs:
        moments = sorted(after for filmed, after in run.videos if filmed == task)
        if moments:
            shown = dict.fromkeys((moments[0], moments[-1]))
            clips = [
                Clip(
                    _caption(task, after),
                    f"{entry.label} on task {task + 1} ({name}) after training task {after + 1}",
                    run.videos[task, after],
                )
                for after in shown
            ]
            return Scene(entry.label, tuple(clips))
    return Scene(entry.label, ())


def _caption(task: int, after: int) -> str:
    return "just learnt" if after == task else f"after task {after + 1}"


def filmed_tasks(comparison: Comparison) -> Sequence[int]:
    """The tasks that any run has a video of."""
    return sorted({task for run in comparison.runs for task, _ in run.videos})
