"""How well each task was done when it had just been learnt: a Markdown table from runs' records.

Run with: python tools/measures.py RUN…
"""

import json
import sys
from pathlib import Path


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def just_learnt(run: Path) -> list[dict]:
    """The final evaluations r[i, i] of a run, in the order of the tasks."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        r
        for r in records
        if r["kind"] == "evaluation" and r["phase"] == "final" and r["task"] == r["after"]
    ]


def _cell(values: list[float] | None) -> str:
    return "–" if values is None else f"{mean(values):.3g}"


def main(runs: list[Path]) -> None:
    names = sorted({name for run in runs for r in just_learnt(run) for name in r["measures"]})
    columns = ["suite", "seed", "task", "return", "success", *names, "one-step error"]
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    for run in runs:
        config = json.loads((run / "config.json").read_text())
        for record in just_learnt(run):
            success = record["successes"]
            cells = [
                config["suite"],
                config["seed"],
                config["tasks"][record["task"]],
                f"{mean(record['returns']):.1f}",
                f"{100 * mean(success):.0f} %" if success else "–",
                *(_cell(record["measures"].get(name)) for name in names),
                f"{record['one_step']:.2f}",
            ]
            print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
