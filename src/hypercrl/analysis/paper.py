"""The numbers that the paper reports, as data: method names, retention and forward transfer.

Huang, Xie, Bharadhwaj and Shkurti, "Continual Model-Based Reinforcement Learning with
Hypernetworks" (ICRA 2021): the tables "Performance Retention" and "Forward Transfer", in per
cent, mean and one standard deviation over 4 seeds × 10 episodes. The door's are of returns
normalised by the single-task model's. Keys are the names of our suites and methods.
"""

from dataclasses import dataclass

METHOD_NAMES = {
    "hypercrl": "HyperCRL",
    "multitask": "Multi-task",
    "si": "SI",
    "ewc": "EWC",
    "coreset": "Coreset",
    "finetune": "Fine-tuning",
    "hypercrl_mt": "HyperCRL-MT",
    "single": "Single-task",
}
"""How the paper writes the methods, in the order in which we list them."""

SUITE_NAMES = {
    "pusher": "Pusher",
    "door": "Door",
    "slide": "Block sliding",
    "half_cheetah": "HalfCheetah",
}

Number = tuple[int, int]  # mean, standard deviation; whole per cent


@dataclass(frozen=True)
class Row:
    """One method's line of a table: its tasks in order, then their average."""

    tasks: tuple[Number, ...]
    average: Number


def _row(*numbers: Number) -> Row:
    return Row(numbers[:-1], numbers[-1])


RETENTION: dict[str, dict[str, Row]] = {
    "pusher": {
        "multitask": _row((142, 74), (91, 25), (96, 9), (91, 11), (106, 20)),
        "hypercrl": _row((99, 10), (107, 9), (98, 13), (103, 15), (102, 6)),
        "si": _row((40, 54), (88, 21), (95, 21), (92, 14), (79, 16)),
        "ewc": _row((7, 15), (13, 8), (6, 8), (0, 3), (4, 5)),
        "coreset": _row((87, 66), (32, 46), (39, 13), (61, 43), (55, 23)),
        "finetune": _row((0, 2), (-2, 6), (1, 3), (13, 16), (3, 4)),
    },
    "door": {
        "multitask": _row((37, 70), (81, 88), (59, 60), (93, 129), (68, 45)),
        "hypercrl": _row((113, 75), (100, 76), (99, 36), (86, 68), (100, 26)),
        "si": _row((-17, 27), (11, 61), (6, 37), (16, 60), (4, 24)),
        "ewc": _row((-6, 33), (17, 59), (4, 25), (16, 50), (7, 22)),
        "coreset": _row((-5, 28), (26, 53), (21, 34), (45, 68), (22, 24)),
        "finetune": _row((-14, 28), (11, 58), (3, 23), (16, 65), (4, 23)),
    },
    "slide": {
        "multitask": _row((106, 36), (131, 27), (103, 39), (113, 12), (113, 16)),
        "hypercrl": _row((82, 56), (98, 11), (109, 16), (95, 65), (96, 22)),
        "si": _row((37, 14), (92, 12), (68, 56), (103, 7), (75, 15)),
        "ewc": _row((-5, 7), (14, 20), (13, 35), (39, 27), (15, 12)),
        "coreset": _row((58, 18), (97, 72), (65, 33), (73, 21), (73, 21)),
        "finetune": _row((-2, 8), (-12, 15), (-1, 4), (-7, 5), (-6, 5)),
    },
}
"""Tasks 1 to 4 and their average."""

FORWARD_TRANSFER: dict[str, dict[str, Row]] = {
    "pusher": {
        "multitask": _row((118, 23), (106, 12), (105, 9), (110, 21), (109, 9)),
        "hypercrl": _row((127, 22), (99, 12), (94, 12), (107, 20), (107, 9)),
        "si": _row((114, 26), (84, 13), (98, 15), (101, 20), (99, 10)),
        "ewc": _row((125, 23), (109, 11), (105, 10), (110, 21), (112, 9)),
        "coreset": _row((126, 20), (99, 13), (90, 17), (106, 21), (105, 9)),
        "finetune": _row((138, 22), (108, 9), (94, 17), (107, 23), (112, 9)),
    },
    "door": {
        "multitask": _row((103, 74), (94, 34), (122, 160), (78, 78), (96, 49)),
        "hypercrl": _row((106, 76), (91, 31), (168, 203), (102, 67), (117, 57)),
        "si": _row((69, 57), (56, 40), (107, 137), (66, 66), (75, 42)),
        "ewc": _row((71, 62), (78, 32), (125, 151), (71, 61), (86, 44)),
        "coreset": _row((94, 80), (83, 34), (113, 145), (57, 68), (84, 46)),
        "finetune": _row((73, 83), (90, 43), (101, 145), (83, 77), (87, 47)),
    },
    "slide": {
        "multitask": _row((71, 13), (92, 20), (99, 9), (93, 14), (89, 7)),
        "hypercrl": _row((92, 8), (97, 14), (82, 39), (94, 14), (91, 11)),
        "si": _row((91, 7), (83, 48), (102, 9), (88, 14), (91, 13)),
        "ewc": _row((90, 9), (115, 14), (103, 11), (94, 20), (100, 7)),
        "coreset": _row((65, 22), (108, 14), (110, 16), (94, 17), (95, 9)),
        "finetune": _row((48, 42), (88, 19), (97, 25), (76, 29), (77, 15)),
    },
}
"""Tasks 2 to 5 and their average."""
