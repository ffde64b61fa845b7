"""A standalone Spark cluster on this machine: a master, and workers that can be lost."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.cluster.program import HOST, Program

__all__ = ["Cluster"]

_MASTER = re.compile(rf"Starting Spark master at (spark://{re.escape(HOST)}:\d+)")
_NO_CATALOG = str(Path(__file__).parent / "no_catalog")
_DEPLOY = "org.apache.spark.deploy"
_BOUND = ("--host", HOST, "--port", "0", "--webui-port", "0")


class Cluster:
    """A master without workers, until some are added."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[Program] = []
        self._added = 0
        options = ["--host", HOST, "--port", "0", "--webui-port", "0"]
        self.master = Program(
            folder / "master.log", "org.apache.spark.deploy.master.Master", *options
        )
        try:
            self.url = self.master.said(_MASTER)[1]
        except BaseException:
            self.close()
            raise

    def add_worker(self) -> Program:
        """One more worker, of one core and one gibibyte."""
        self._added += 1
        name = f"worker{self._added}"
        options = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / name)]
        log = self.folder / f"{name}.log"
        path = os.pathsep.join([_NO_CATALOG, os.environ.get("PYTHONPATH", "")])
        command = [f"{_DEPLOY}.worker.Worker", *_BOUND, *options, self.url]
        worker = Program(log, *command, PYTHONPATH=path)
        self.workers.append(worker)
        return worker

    def close(self) -> None:
        """End everything."""
        for member in (*self.workers, self.master):
            member.kill()
