"""Videos: of a suite under random actions and of a run's controller."""

import imageio.v3 as iio

from hypercrl.cli import main


def test_play_a_suite_at_random(tmp_path, capsys):
    path = tmp_path / "look.mp4"
    main(["play", "cartpole", "--random", "--task", "2", "--video", str(path)])
    frames = iio.imread(path)
    assert frames.shape[0] > 100  # one a control step, and some at the end
    assert frames[0].std() > 5  # something is to be seen
    assert (frames[0] != frames[60]).any()  # and it moves
    assert "return" in capsys.readouterr().out
