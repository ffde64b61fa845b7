"""Runs suites, prints JSON lines, and writes them with a table to docs/benchmarks.md.

python -m bench                  every suite
python -m bench table diff       some of them; the others keep their last figures
python -m bench evolution        schema changes, chains of schema versions among them
python -m bench keep             what keeps a database: backups, exports
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench import (
    backup,
    branches,
    conditions,
    differences,
    evolution,
    export,
    graph,
    indexes,
    keep_collect,
    lineage,
    load,
    pack_open,
    page,
    report,
    schema_chains,
    server,
    sharing,
    spark_speed,
    ssb,
    start,
    table_speed,
    tpch_views,
    tune,
    views,
)
from bench.measure import Result

HOME = Path(__file__).parent
PARTS = {"evolution": ["evolution", "chains"], "keep": ["collect", "backup", "export"]}
"""Suites that are of one subject: who names it runs all of them."""


def _packs():
    for item in pack_open.run():
        yield Result("packs", item["name"], item["value"], item["unit"], bound=item["bound"])


SUITES = {
    "table": table_speed.run,
    "diff": differences.run,
    "packs": _packs,
    "sharing": sharing.run,
    "graph": graph.run,
    "load": load.run,
    "start": start.run,
    "spark": spark_speed.run,
    "evolution": evolution.run,
    "chains": schema_chains.run,
    "views": views.run,
    "ssb": ssb.run,
    "branches": branches.run,
    "tpch": tpch_views.run,
    "conditions": conditions.run,
    "lineage": lineage.run,
    "backup": backup.run,
    "export": export.run,
    "collect": keep_collect.run,
    "server": server.run,
    "page": page.run,
    "indexes": indexes.run,
    "tune": tune.run,
}


def main(names: list[str]) -> int:
    """Run the suites named, or all; 2 for a name there is not."""
    unknown = [name for name in names if name not in {*SUITES, *PARTS}]
    if unknown:
        print(f"no suite {unknown[0]!r}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    (HOME / "results").mkdir(exist_ok=True)
    wanted = [part for name in names for part in PARTS.get(name, [name])]
    for name in dict.fromkeys(wanted or SUITES):
        lines = []
        for result in SUITES[name]():
            lines.append(json.dumps(result.to_json()))
            print(lines[-1], flush=True)
        (HOME / "results" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    report.write(HOME / "results", HOME.parent / "docs" / "benchmarks.md", list(SUITES))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
