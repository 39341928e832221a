"""Scripted experts for the doors: they see the state and act through the suite's actions alone.

An expert lines the open gripper up with the handle, moves in and closes it. It then turns the
handle if it turns, and pulls along the door's arc. Told to turn the wrong way or not at all, it
pulls all the same, which a latched door must withstand.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hypercrl.simulation.door_scene import Door
from hypercrl.simulation.panda import MAX_ROTATION, MAX_TRANSLATION
from hypercrl.suites.door import DOOR, HANDLE, OFFSET, ORIENTATION, UNLATCHING_ANGLE

GRIPPER = 11  # where the state has the gripper's opening
TURNED = UNLATCHING_ANGLE + 0.15  # rad: past the latch with something to spare
PLACED = 0.008  # m, how near the tool must be for the gripper to close
IN_FRONT = 0.06  # m, where the tool waits until it is lined up
CLOSED = {"pull": 0.012, "knob": 0.036, "lever": 0.013}  # m, a finger's opening around the handle
# Columns: the axes of a tool that opens the shut door, in the world.
OPENING_AXES = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


@dataclass
class Expert:
    """Opens one door; remembers only how far it has come."""

    door: Door
    sense: int = 1  # 1 turns the right way, -1 the wrong way, 0 not at all
    patience: int = 30  # steps after which it stops turning, whatever has come of it
    grasped: bool = False
    turned: bool = False
    num_turning: int = 0

    def act(self, state: np.ndarray) -> np.ndarray:
        self.grasped |= self._holds(state)
        if not self.grasped:
            return self._approach(state)
        self.turned |= abs(state[HANDLE]) >= TURNED or self.num_turning >= self.patience
        sense = self.sense * self.door.direction
        if sense == 0 or self.turned:
            return self._pull(state)
        self.num_turning += 1
        return TURNS[self.door.handle](state, sense)

    def _holds(self, state) -> bool:
        near = np.linalg.norm(state[OFFSET]) < 2 * PLACED
        return bool(near and state[GRIPPER] < CLOSED[self.door.handle])

    def _approach(self, state) -> np.ndarray:
        offset = state[OFFSET]
        lined_up = np.linalg.norm(offset[1:]) < PLACED / 2
        goal = np.array([0.0 if lined_up else max(offset[0], IN_FRONT), 0.0, 0.0])
        placed = np.linalg.norm(offset) < PLACED
        move = 0.7 * (goal - offset) / MAX_TRANSLATION
        return _action(move, _straighten(state), grip=-1.0 if placed else 1.0)

    def _pull(self, state) -> np.ndarray:
        angle = state[DOOR]
        return _action(move=[np.cos(angle), np.sin(angle), 0.0])


def turn_knob(state: np.ndarray, sense: int) -> np.ndarray:
    """Turn the tool about the knob's axis and stay on it."""
    return _action(-0.7 * state[OFFSET] / MAX_TRANSLATION, [0.6 * sense, 0.0, 0.0])


def turn_lever(state: np.ndarray, sense: int) -> np.ndarray:
    """Move the lever's end around its axis; the fingers slide along."""
    angle = state[HANDLE]
    along_arc = np.array([0.0, -np.sin(angle), np.cos(angle)])
    return _action(sense * along_arc, [0.3 * sense, 0.0, 0.0])


TURNS = {"knob": turn_knob, "lever": turn_lever}


def _action(move: ArrayLike, rotate: ArrayLike = 0.0, grip: float = -1.0) -> np.ndarray:
    """Gripper closing unless told otherwise."""
    action = np.zeros(7)
    action[:3], action[3:6], action[6] = move, rotate, grip
    return action.clip(-1.0, 1.0).astype(np.float32)


def _straighten(state) -> np.ndarray:
    """Half of the rotation that takes the tool to the pose for opening, small angles assumed."""
    w, *vector = state[ORIENTATION]
    return -np.sign(w) * OPENING_AXES @ np.array(vector) / MAX_ROTATION
