"""Programs that work on one database at the same time, from the side that starts them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tests.crash import nursery

__all__ = ["Program", "together"]


class Program:
    """One `tests.crash.writer`, started and ready."""

    def __init__(self, task: str, url: str, number: int, count: int):
        self.process = nursery.start("tests.crash.writer", task, url, str(number), str(count))

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait(timeout=240)

    def go(self) -> None:
        """Let it begin."""
        print("go", file=self.process.stdin, flush=True)

    def hear(self) -> str:
        """Its next line."""
        line = self.process.stdout.readline()
        assert line, "the program ended without an answer"
        return line.strip()

    def told(self) -> Any:
        """What it did, once it is done."""
        answer = json.loads(self.hear())
        assert self.process.wait(timeout=240) == 0
        return answer


def together(url: str, tasks: Sequence[tuple[str, int]]) -> list[Any]:
    """Run tasks, each so many times, all from the same moment; what each of them tells."""
    with ExitStack() as stack:
        programs = [
            stack.enter_context(Program(task, url, number, count))
            for number, (task, count) in enumerate(tasks)
        ]
        for program in programs:
            assert program.hear() == "ready"
        for program in programs:
            program.go()
        return [program.told() for program in programs]
