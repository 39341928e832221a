"""Make a small trained controller of a finished run, to be shipped with the package.

    python tools/ship_controller.py RUN [--out FOLDER]

Goes to `src/hypercrl/trained/<suite>/` unless told otherwise, in place of the one before.
"""

import argparse
from pathlib import Path

from hypercrl.experiment.shipped import CONTROLLER, ship


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = ship(options.run, options.out)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder / CONTROLLER}: {(folder / CONTROLLER).stat().st_size / 1000:.0f} kB, ", end="")
    print(f"{size / 1000:.0f} kB with its record.")


if __name__ == "__main__":
    main()
