"""The README's picture: where each block ends once all are learnt, with and without forgetting.

Run after `make demo` with: python tools/hero_picture.py runs/demo docs/images/hero.png
"""

import sys
from pathlib import Path

import imageio_ffmpeg
import matplotlib.pyplot as plt
import numpy as np

from hypercrl.experiment.run_folder import video_name

METHODS = {"hypercrl": "HyperCRL", "finetune": "Fine-tuning"}
TASKS = 3


def last_frame(video: Path) -> np.ndarray:
    reader = imageio_ffmpeg.read_frames(str(video))
    width, height = next(reader)["size"]
    *_, data = reader
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


def main(runs: Path, picture: Path) -> None:
    figure, axes = plt.subplots(2, TASKS, figsize=(9.6, 5.2), layout="constrained")
    for row, (method, label) in zip(axes, METHODS.items(), strict=True):
        (folder,) = runs.glob(f"pusher-{method}-*-s0")
        for task, axis in enumerate(row):
            axis.imshow(last_frame(folder / video_name(task, TASKS - 1)))
            axis.set_xticks([])
            axis.set_yticks([])
            axis.spines[:].set_visible(False)
            if method == next(iter(METHODS)):
                axis.set_title(f"block {task + 1} of {TASKS}", fontsize=11)
        row[0].set_ylabel(label, fontsize=13)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
