"""The commands, one file each; a command is imported when it is asked for."""

from __future__ import annotations

from typing import Any

__all__ = ["COMMANDS", "command"]

COMMANDS = (
    "init",
    "import",
    "export",
    "sql",
    "log",
    "graph",
    "branch",
    "tag",
    "diff",
    "merge",
    "request",
    "blame",
    "history",
    "provenance",
    "revert",
    "cherry-pick",
    "evolve",
    "retire",
    "derive",
    "refresh",
    "propagate",
    "syncs",
    "sync",
    "alerts",
    "lineage",
    "status",
    "check",
    "storage",
    "compact",
    "tune",
    "backup",
    "restore",
    "gc",
    "erase",
    "demo",
    "bench",
    "completion",
)
"""Every command, in the order in which help lists them."""


def command(name: str) -> Any:  # noqa: PLR0912, PLR0915
    """The function, or the application, that a command is; None if there is none of the name."""
    found: Any
    match name:
        case "init":
            from livingdb.cli.commands.init import init as found
        case "import":
            from livingdb.cli.commands.import_files import import_files as found
        case "export":
            from livingdb.cli.commands.export import export as found
        case "sql":
            from livingdb.cli.commands.sql import sql as found
        case "log":
            from livingdb.cli.commands.log import log as found
        case "graph":
            from livingdb.cli.commands.graph import graph as found
        case "branch":
            from livingdb.cli.commands.branch import branch as found
        case "tag":
            from livingdb.cli.commands.tag import tag as found
        case "diff":
            from livingdb.cli.commands.diff import diff as found
        case "merge":
            from livingdb.cli.commands.merge import merge as found
        case "request":
            from livingdb.cli.commands.request import request as found
        case "blame":
            from livingdb.cli.commands.blame import blame as found
        case "history":
            from livingdb.cli.commands.history import history as found
        case "provenance":
            from livingdb.cli.commands.provenance import provenance as found
        case "revert":
            from livingdb.cli.commands.replay import revert as found
        case "cherry-pick":
            from livingdb.cli.commands.replay import cherry_pick as found
        case "evolve":
            from livingdb.cli.commands.evolve import evolve as found
        case "retire":
            from livingdb.cli.commands.retire import retire as found
        case "derive":
            from livingdb.cli.commands.derive import derive as found
        case "refresh":
            from livingdb.cli.commands.refresh import refresh as found
        case "propagate":
            from livingdb.cli.commands.propagate import propagate as found
        case "syncs":
            from livingdb.cli.commands.syncs import syncs as found
        case "sync":
            from livingdb.cli.commands.sync import sync as found
        case "alerts":
            from livingdb.cli.commands.alerts import alerts as found
        case "lineage":
            from livingdb.cli.commands.lineage import lineage as found
        case "status":
            from livingdb.cli.commands.status import status as found
        case "check":
            from livingdb.cli.commands.check import check as found
        case "tune":
            from livingdb.cli.commands.tune import tune as found
        case "storage":
            from livingdb.cli.commands.storage import storage as found
        case "compact":
            from livingdb.cli.commands.compact import compact as found
        case "backup":
            from livingdb.cli.commands.backup import backup as found
        case "restore":
            from livingdb.cli.commands.restore import restore as found
        case "gc":
            from livingdb.cli.commands.gc import gc as found
        case "erase":
            from livingdb.cli.commands.erase import erase as found
        case "demo":
            from livingdb.cli.commands.demo import demo as found
        case "bench":
            from livingdb.cli.commands.bench import bench as found
        case "completion":
            from livingdb.cli.commands.completion import completion as found
        case _:
            return None
    return found
