"""The command line: `livingdb COMMAND`."""

from __future__ import annotations

__all__ = ["main"]

_OBJECTS_PER_COLLECTION = 400_000
"""Importing makes many objects that stay: few searches for those that do not."""


def main() -> None:
    """Run the command line; ends the process with one of the codes in `exits`."""
    import gc

    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    from livingdb.cli.app import run

    code = run()
    _end_process(code)
    raise SystemExit(code)


def _end_process(code: int) -> None:
    """End at once: what was imported goes with the process and need not be taken apart.

    What others asked to be done at the end is done; where threads still work, or nobody takes
    what was told, the process ends as any other does.
    """
    import atexit
    import os
    import sys
    import threading

    if threading.active_count() > 1:
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)
