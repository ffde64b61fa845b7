"""The Java that Spark runs on: whether there is one, and whether it is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from livingdb.errors import Unsupported

__all__ = ["JAVA_VERSION", "check_java"]

JAVA_VERSION = 17

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java() -> int:
    """The major version of the Java that Spark will run on; `Unsupported` if it is too old."""
    program = _program()
    found = 0 if program is None else _major(program)
    if found >= JAVA_VERSION:
        return found
    what = "there is none" if not found else f"Java {found} is too old"
    raise Unsupported(
        f"Spark needs Java {JAVA_VERSION} or newer, and {what}: install a JRE (on Debian the "
        f"package openjdk-{JAVA_VERSION}-jre-headless) or point JAVA_HOME at one; without Java, "
        'engine="auto", in livingdb.open or for one view, runs in this process what is not large '
        "and means the same there"
    )


def _program() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


def _major(program: str) -> int:
    try:
        ran = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(ran.stderr + ran.stdout)
    return int(found.group(1)) if found else 0
