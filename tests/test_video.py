"""Videos: of a suite under random actions and of a run's controller."""

import functools

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest

import tiny
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


class Drawn(tiny.Point):
    """A point that is drawn as it is told, and does not say how often."""

    def __init__(self, *args, picture=None, **options):
        super().__init__(*args, **options)
        self.picture = picture

    def render(self):
        if isinstance(self.picture, Exception):
            raise self.picture
        return self.picture


@pytest.mark.parametrize(
    ("picture", "told"),
    [
        (None, "must return a picture"),
        (NotImplementedError(), "must return a picture"),
        (gymnasium.error.DependencyNotInstalled("pip install it"), "pip install it"),
    ],
)
def test_an_environment_that_cannot_be_drawn_is_told(tmp_path, capsys, picture, told):
    make = functools.partial(tiny.make_suite, "drawn", functools.partial(Drawn, picture=picture))
    with tiny.registered(drawn=make), pytest.raises(SystemExit) as stop:
        main(["play", "drawn", "--random", "--video", str(tmp_path / "no.mp4")])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "cannot be drawn" in said and told in said


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_environment_need_not_say_how_often_it_is_drawn(tmp_path):
    path, picture = tmp_path / "look.mp4", np.full((32, 32, 3), 200, np.uint8)
    make = functools.partial(tiny.make_suite, "drawn", functools.partial(Drawn, picture=picture))
    with tiny.registered(drawn=make):
        main(["play", "drawn", "--random", "--video", str(path)])
    assert len(read_frames(path)) > 10
