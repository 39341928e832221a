"""The rooms of the house and the one direction in which they know each other.

An import inside a function, or for the type checker alone, counts like any other: a cycle that
is only hidden is still one.
"""

import ast
import dataclasses
import graphlib
from pathlib import Path

import pytest

import hypercrl
from hypercrl.experiment import records

SOURCE = Path(hypercrl.__file__).parent

ROOMS = (
    # what everybody may know
    "errors",
    "reading",
    "writing",
    "checks",
    "durations",
    "threads",
    "encoding",
    "types",
    "trust",
    "registry",
    # how models are learnt and used
    "data",
    "dynamics",
    "learning",
    "learners",
    "planning",
    "presets",
    # what there is to learn
    "simulation",
    "suites",
    "environments",
    # runs, and what is made of them
    "experiment",
    "custom",
    "training",
    "contracts",
    "export",
    "sweep",
    "analysis",
    "results",
    "commands",
    "cli",
)
"""From the bottom up: a room knows those before it in this list and none after it."""


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.AST):
    """Rooms that a module names in any import statement, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "hypercrl":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hypercrl."):
            yield (node.module or "").split(".")[1]
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names)
            yield from (name.split(".")[1] for name in names if name.startswith("hypercrl."))


def import_graph() -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        room = room_of(file)
        if room in ("__init__", "__main__"):  # what everything below is reached by
            continue
        known = set(imported_rooms(ast.parse(file.read_text())))
        graph.setdefault(room, set()).update(known - {room})
    return graph


def test_no_rooms_import_each_other_in_a_circle():
    graphlib.TopologicalSorter(import_graph()).prepare()  # raises a CycleError that names it


def test_every_room_has_its_place_and_imports_go_one_way():
    graph = import_graph()
    assert set(graph) == set(ROOMS)
    upwards = [
        (room, other)
        for room, known in graph.items()
        for other in known
        if ROOMS.index(other) > ROOMS.index(room)
    ]
    assert not upwards


def test_a_hidden_cycle_is_seen():
    tree = ast.parse("def f():\n    from hypercrl.sweep.plan import x\n    import hypercrl.cli\n")
    assert set(imported_rooms(tree)) == {"sweep", "cli"}


def looked_up(tree: ast.AST):
    """Strings by which a module looks something up: `x["name"]`, `x.get("name")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield node.slice.value
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("get", "pop"):
            yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


@pytest.mark.parametrize("room", ["analysis", "sweep", "commands", "../../tools"])
def test_whoever_reads_records_uses_their_attributes(room):
    """A field that is deleted from the schema then breaks the type check."""
    kinds = records.KINDS.values()
    fields = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    for file in (SOURCE / room).rglob("*.py"):
        assert not fields.intersection(looked_up(ast.parse(file.read_text()))), file


def test_the_picture_in_the_docs_names_every_room():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    folders = [room for room in ROOMS if (SOURCE / room).is_dir()]
    assert [room for room in folders if f"{room}/" not in page] == []
