"""`make fuzz`: every target for a while, guided by what the code does (atheris)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
NAMES = ("chunk", "pack", "recipe", "ref", "sql", "spec")


def fuzz(name: str, arguments: list[str]) -> None:
    """Run one target until its time is over; a mistake ends the process."""
    import atheris

    with atheris.instrument_imports(include=["livingdb"]):
        from tests.fuzz.targets import TARGETS

        from livingdb.errors import LivingDBError

    def once(data: bytes) -> None:
        try:
            TARGETS[name](data)
        except LivingDBError:
            return

    atheris.Setup([sys.argv[0], *arguments], once)
    atheris.Fuzz()


def main(seconds: int) -> int:
    """Each target in a process of its own, with its share of the time; 1 if one failed."""
    each = max(1, seconds // len(NAMES))
    failed = []
    for name in NAMES:
        with tempfile.TemporaryDirectory() as found:
            limits = [f"-max_total_time={each}", "-rss_limit_mb=2048", "-timeout=20"]
            line = [sys.executable, "-m", "tests.fuzz.run", name, *limits, found]
            print(f"{name}: {each} s", flush=True)
            if subprocess.run([*line, str(CORPUS / name)], check=False).returncode:
                failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "nothing found")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1] in NAMES:
        fuzz(sys.argv[1], sys.argv[2:])
    else:
        sys.exit(main(int(sys.argv[1])))
