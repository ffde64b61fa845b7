"""Frozen databases as files: `data/NAME.tar.zst`, and beside it what a reader saw in it."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import zstandard

__all__ = [
    "DATA",
    "expected",
    "first_difference",
    "frozen_names",
    "pack",
    "store",
    "stored",
    "unpack",
]

DATA = Path(__file__).parent / "data"
_ARCHIVE, _DESCRIPTION = ".tar.zst", ".json.gz"
_SHOWN_CHARACTERS = 400


def _mails(branch: str, snapshot: str) -> dict[tuple[str, str], Any]:
    """A view of a masked column alone: whole rows of its source were shown, not their snapshot."""
    rows = {
        "snapshots": {"customers": snapshot},
        "branches": {"customers": branch},
        "whole": [],
        "rows": {"customers": [[snapshot]] * 4},
    }
    return {("lineage", "rows of mails"): rows}


def _broken(snapshot: str) -> dict[tuple[str, str], Any]:
    """A view that stopped as a column went: all rows of its source were shown, and not the one."""
    row = [1, 1, "Bodø", "decimal 3.75", False, "datetime 2024-03-31T01:45:00+01:00"]
    row += ["date 2024-02-28", None, "decimal 0.00", snapshot]
    rows = {
        "snapshots": {"orders": snapshot},
        "branches": {"orders": "main"},
        "whole": [],
        "rows": {"orders": [row]},
    }
    return {("lineage", "rows of broken"): rows}


MENDED: dict[str, dict[tuple[str, str], Any]] = {
    "catalog-4": {
        # The view reads a column that was dropped; any column of its table was named instead.
        ("lineage", "columns of broken"): {
            "columns": {"id": ["orders.id"], "note": ["orders.note"]},
            "used": {},
            "masked": {},
        },
        **_mails("main_v3", "23895dbe3b9cbf4398617a0e35a8c65f4e2e2fd047c721f7ce40a331a9d5486b"),
    },
    "catalog-5": {
        **_mails("main_v3", "dc0547d37aaccfc3cc153f9a7616f9cae7a044bfd3509c7f8ab9f4d9cd98ef27"),
        **_broken("e260cf1e1fbbe791a2a0fe07a5f3d0ccf6cb1f54149e18c4d15677900d5e27e0"),
    },
    "catalog-5-packs-2": {
        **_mails("main", "1bef7061b8c32640f1eaa08a3cb556adc98c6ee8f8a2cd34b000ae305ef7d445"),
        **_broken("875bcff5945baaec1857e73b1143f7fbfafc7c497b36cf582f798819c6c7c1e4"),
    },
    "catalog-6": {
        **_mails("main", "5d766d5bb734b442db02d68c35e19bc210972503befdab8864f1f577b777b302"),
        **_broken("37259eee5a48b94918a5c33924d045f332ec7d841991fa8b367549e1735d81f6"),
    },
    "catalog-6-packs-3": {
        **_mails("main", "baa0c02053b8a687736ff5e27423dccb83d45bfd2d42f4d5c4992e2b79f5f209"),
        **_broken("c626c2621acee06cfd7c1990d6de0b697cdd1f7fb4ec98692ce0bf8995adf907"),
    },
    "catalog-7": _broken("053b9dcdfceea26785a06aff266aa7be3dc727c0513d129cb48757c1bd1cdfef"),
    "catalog-8": _broken("37adde05fa4646525c36781930f571b07c009775537d23379685f56b47c84280"),
    "catalog-9": _broken("04e8d0e0f74a4208366da2f35e47858c8184d39cea27792f3ad2c0aa8f395a86"),
    "catalog-10": _broken("67912d6b5dafc4d074d6c4aa4c4f988120f84a1c905ca25e6eb6db116df0a8bb"),
}
"""Answers that were a mistake when they were frozen, by section and name; what they are to be."""


def frozen_names() -> list[str]:
    """Every frozen database there is, the oldest first."""
    names = (path.name.removesuffix(_ARCHIVE) for path in DATA.glob(f"*{_ARCHIVE}"))
    return sorted(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def unpack(name: str, folder: Path) -> Path:
    """A copy of a frozen database in a folder, to be opened."""
    packed = (DATA / f"{name}{_ARCHIVE}").read_bytes()
    files = io.BytesIO(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
    with tarfile.open(fileobj=files) as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def pack(name: str, database: Path) -> None:
    """Freeze a database that is closed; `FileExistsError` if one of that name is frozen."""
    files = io.BytesIO()
    with tarfile.open(fileobj=files, mode="w") as archive:
        archive.add(database, name, filter=_anonymous)
    packed = zstandard.ZstdCompressor(level=19).compress(files.getvalue())
    DATA.mkdir(exist_ok=True)
    with (DATA / f"{name}{_ARCHIVE}").open("xb") as file:
        file.write(packed)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nothing of who made it, where and when."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def store(name: str, description: dict[str, Any]) -> None:
    """Write down what a reader sees in a frozen database."""
    text = json.dumps(description, ensure_ascii=False, indent=0)
    (DATA / f"{name}{_DESCRIPTION}").write_bytes(gzip.compress(text.encode(), mtime=0))


def stored(name: str) -> dict[str, Any]:
    """What a reader saw in a frozen database when it was made."""
    packed = (DATA / f"{name}{_DESCRIPTION}").read_bytes()
    description: dict[str, Any] = json.loads(gzip.decompress(packed))
    return description


def expected(name: str) -> dict[str, Any]:
    """What a reader is to see in it: the same, but for what was a mistake."""
    description = stored(name)
    for (section, what), answer in MENDED.get(name, {}).items():
        assert description[section][what] != answer, f"{what} was no mistake"
        description[section] = {**description[section], what: answer}
    return description


def first_difference(old: Any, new: Any, at: Sequence[str] = ()) -> str | None:
    """Where two descriptions differ first, and how; None if they do not."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            if name not in old or name not in new:
                which = "is gone" if name in old else "is new"
                return f"{_path([*at, name])} {which}: {_short((old | new)[name])}"
            found = first_difference(old[name], new[name], [*at, name])
            if found is not None:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list):
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            found = first_difference(one, other, [*at, str(number)])
            if found is not None:
                return found
        if len(old) != len(new):
            return f"{_path(at)} had {len(old)} items and has {len(new)}"
        return None
    same = old == new and type(old) is type(new)
    return None if same else f"{_path(at)}\n  was {_short(old)}\n  is  {_short(new)}"


def _path(names: Sequence[str]) -> str:
    return " › ".join(names)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
