"""How long short commands take to answer, beside importing pyarrow and sqlite3: CPU time."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import livingdb
from bench.measure import Result

ROUNDS = 9
PEER = "import pyarrow, sqlite3"
COMMANDS = {"livingdb log": (["log"], 3.0), "livingdb sql 'SELECT 1'": (["sql", "SELECT 1"], 5.0)}


def run() -> Iterator[Result]:
    """The least CPU time of each, in turns; what is compiled is compiled before."""
    with TemporaryDirectory() as folder:
        place = Path(folder) / "shop.ldb"
        livingdb.create(place).close()
        environment = {**os.environ, "LIVINGDB": str(place), "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        programs = {name: ["-m", "livingdb", *command] for name, (command, _) in COMMANDS.items()}
        programs[PEER] = ["-c", PEER]
        least = dict.fromkeys(programs, float("inf"))
        for number in range(ROUNDS + 1):
            for name, arguments in programs.items():
                taken = _cpu_seconds(arguments, environment)
                if number:
                    least[name] = min(least[name], taken)
    for name, (_, bound) in COMMANDS.items():
        yield Result("start", name, least[name], "s", PEER, least[PEER], bound, "CPU time")


def _cpu_seconds(arguments: Sequence[str], environment: dict[str, str]) -> float:
    """What a new process of Python takes until it ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
