"""`livingdb bench`: the benchmarks that come with the source."""

from __future__ import annotations

from typing import Annotated

import typer

from livingdb.cli.exits import BAD_DATA
from livingdb.errors import NotFound

__all__ = ["bench"]

_USAGE = 2


def bench(
    suites: Annotated[list[str] | None, typer.Argument(help="Some suites.  [default: all]")] = None,
) -> None:
    """Measure LivingDB beside other systems; `make bench` installs what that needs.

    \b
    Example:
      livingdb bench
      livingdb bench table diff
    """
    import subprocess
    import sys
    from pathlib import Path

    import livingdb

    beside = Path(livingdb.__file__).parents[2]
    places = (beside, Path.cwd())
    home = next((p for p in places if (p / "bench" / "__main__.py").is_file()), None)
    if home is None:
        raise NotFound(
            "the benchmarks come with LivingDB's source: run `make bench` or `livingdb bench` there"
        )
    done = subprocess.run([sys.executable, "-m", "bench", *(suites or ())], cwd=home, check=False)
    if done.returncode:
        raise typer.Exit(_USAGE if done.returncode == _USAGE else BAD_DATA)
