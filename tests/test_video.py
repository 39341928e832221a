"""Videos: of a suite under random actions and of a run's controller."""

import imageio_ffmpeg
import numpy as np
import pytest

from hypercrl.cli import main


def read_frames(path) -> np.ndarray:
    reader = imageio_ffmpeg.read_frames(str(path))
    width, height = next(reader)["size"]
    return np.stack([np.frombuffer(data, np.uint8).reshape(height, width, 3) for data in reader])


# The encoder's package leaves its end of a pipe to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_play_a_suite_at_random(tmp_path, capsys):
    path = tmp_path / "look.mp4"
    main(["play", "slide", "--random", "--task", "2", "--video", str(path)])
    frames = read_frames(path)
    assert len(frames) > 30  # one a control step, and some at the end
    assert frames[0].std() > 5  # something is to be seen
    assert (frames[0] != frames[20]).any()  # and it moves
    assert "return" in capsys.readouterr().out
