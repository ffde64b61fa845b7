"""Turns results into docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

HEAD = """# Benchmarks

Every figure on this page was measured by `make bench` (or `python -m bench SUITE`) on one
machine; ratios are taken side by side in one run. A bound is what we aim at; where it is
missed the table says so.

"""
TITLES = {
    "table": "One table of 1,000,000 rows",
    "diff": "Differences between versions of 1,000,000 rows",
    "packs": "A pack of 1,000,000 chunks",
    "sharing": "Sharing between versions (the paper's Table 1)",
    "graph": "Commits, history, branches and writers",
    "load": "Many writers, cold readers, many branches",
    "start": "Short commands, until they have answered",
    "spark": "Spark: loading, reading, change feeds",
    "evolution": "Schema changes",
    "chains": "Chains of schema versions",
    "views": "Derived objects",
    "ssb": "The Star Schema Benchmark as immediate views",
    "branches": "A view over many branches",
    "tpch": "TPC-H as views on Spark",
    "conditions": "Conditions",
    "lineage": "Lineage",
    "backup": "Backups of 1,000,000 rows",
    "export": "Exports of 1,000,000 rows",
    "collect": "Retention",
    "server": "A server and its clients",
    "page": "The page in a browser",
    "indexes": "Indexes on other columns than the key",
    "tune": "Layouts and stores that the database chooses itself",
}
INTRODUCTIONS = {
    "sharing": "50,000 rows and 500 commits of 200 rows. `content` and `capacity` make a tree "
    "for every commit with leaves of about 128 rows; `recipes` is the default layout, which "
    "keeps deltas and folds them now and then.",
    "load": "Writers are processes of their own; what one process does alone is CPU time.",
    "ssb": "Its thirteen queries as views of `lineorder` and four dimensions, in CPU time of the "
    "process; the same commits on two databases by turns, one of them without views. "
    "`python -m bench ssb` measures this part alone.",
    "chains": "Versions of one table of 20,000 rows, each in step with the next in both "
    "directions; changes of all kinds by turns. Times are CPU time. "
    "`python -m bench chains` measures this part alone.",
}


def write(results: Path, target: Path, suites: list[str]) -> None:
    """Write the page from the JSON lines of all suites."""
    parts = [
        HEAD,
        f"Machine: {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}.\n",
    ]
    for suite in suites:
        path = results / f"{suite}.jsonl"
        if not path.exists():
            continue
        rows = [json.loads(line) for line in path.read_text().splitlines() if line]
        parts.append(f"\n## {TITLES[suite]}\n\n")
        if suite in INTRODUCTIONS:
            parts.append(INTRODUCTIONS[suite] + "\n\n")
        parts.append("| figure | value | beside | ratio | bound | |\n|---|---|---|---|---|---|\n")
        parts += [_row(row) for row in rows]
    target.write_text("".join(parts))


def _row(row: dict) -> str:
    beside = (
        "" if row["peer"] is None else f"{row['peer']}: {_amount(row['peer_value'], row['unit'])}"
    )
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.3g}"
    unit = "" if row["ratio"] is not None else f" {row['unit']}"
    bound = "" if row["bound"] is None else f"≤ {row['bound']:.3g}{unit}"
    verdict = {True: "reached", False: "**missed**", None: ""}[row["reached"]]
    notes = "; ".join(part for part in (verdict, row["note"]) if part)
    value = _amount(row["value"], row["unit"])
    return f"| {row['name']} | {value} | {beside} | {ratio} | {bound} | {notes} |\n"


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value * 1e3:,.3g} ms" if value < 1 else f"{value:,.3g} s"
    if unit == "B":
        return f"{value / 1e6:,.2f} MB"
    if unit == "chunks":
        return f"{value:,.0f}"
    return f"{value:,.3g} {unit}"
