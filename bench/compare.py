"""Two checkouts side by side: the same suites, in turns, each run in a process of its own.

python -m bench.compare OLD NEW [--rounds 7] graph evolution views conditions

Prints, for each figure, the median of both checkouts, how many times slower the new one is,
and the noise: half the distance between the quartiles of each, added up. A line that is slower
by more than 5% beyond its noise is marked, and then the exit code is 1. Peers are not measured
again: only LivingDB differs between the checkouts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ALLOWED = 1.05

_ONE_RUN = """
import json, sys
from bench import peers
from bench.__main__ import SUITES

UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
replay = peers.replay
last = {}

def only_ours(engine, *arguments):
    if engine == "livingdb":
        last[arguments] = replay(engine, *arguments)
    return last.get(arguments) or replay(engine, *arguments)

peers.replay = only_ours
for name in sys.argv[1:]:
    sizes = {"snapshots": 5_000} if name == "graph" else {}
    for result in SUITES[name](**sizes):
        if result.unit in UNITS:
            seconds = result.value * UNITS[result.unit]
            print(json.dumps([name + ": " + result.name, seconds]), flush=True)
"""


def run_once(checkout: Path, suites: list[str]) -> dict[str, float]:
    """Seconds of each figure, measured by one process on the code of a checkout."""
    paths = f"{checkout / 'src'}{os.pathsep}{checkout}"
    done = subprocess.run(
        [sys.executable, "-c", _ONE_RUN, *suites],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def noise(values: list[float]) -> float:
    """Half the distance between the quartiles, as a share of the median."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2 / statistics.median(values)


def main() -> int:
    """Run the rounds and print the table; 1 if a line is slower beyond its noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    times: dict[str, dict[str, list[float]]] = {"old": defaultdict(list), "new": defaultdict(list)}
    for number in range(asked.rounds):
        for side in ("old", "new") if number % 2 == 0 else ("new", "old"):
            for name, value in run_once(getattr(asked, side).resolve(), asked.suites).items():
                times[side][name].append(value)
        print(f"round {number + 1} of {asked.rounds}", file=sys.stderr, flush=True)
    slower = 0
    for name in times["old"]:
        old, new = times["old"][name], times["new"][name]
        if not new:
            continue
        ratio = statistics.median(new) / statistics.median(old)
        spread = noise(old) + noise(new)
        beyond = ratio > ALLOWED + spread
        slower += beyond
        medians = f"{statistics.median(old) * 1e3:10.3f} {statistics.median(new) * 1e3:10.3f} ms"
        print(
            f"{medians}  {ratio:5.2f} ± {spread:4.2f}  {'SLOWER' if beyond else '      '}  {name}"
        )
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
