"""The command line from outside."""

import re
import subprocess
import sys

import pytest

from livingdb import __version__


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "livingdb", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"livingdb {__version__}")


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--rows", "3"], ["demo", "--rows"]])
def test_bad_usage_exits_2_without_a_traceback(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()


def test_help_imports_no_engine():
    program = (
        "import sys; sys.argv = ['livingdb', '--help']\n"
        "from livingdb.cli import main\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "heavy = {'pyspark', 'duckdb', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout


def test_demo_prints_figures_that_agree():
    done = run("demo", "--rows", "20000")
    assert done.returncode == 0, done.stderr
    assert "load 20,000 rows" in done.stdout
    assert "Rows at first, on main, on what-if: 20,000," in re.sub(r"\s+", " ", done.stdout)
    together, apart = re.search(
        r"writes ([\d,]+) bytes .* and ([\d,]+) with", re.sub(r"\s+", " ", done.stdout)
    ).groups()
    assert int(apart.replace(",", "")) < int(together.replace(",", ""))
    assert not done.stderr
