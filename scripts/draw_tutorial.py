"""Draws the pictures of the documentation that LivingDB makes itself: docs/assets/tutorial.svg.

python scripts/draw_tutorial.py
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.docs.snippets import Page  # noqa: E402

import livingdb  # noqa: E402


def main() -> None:
    """Run the tutorial in a folder that is thrown away, and draw what it made."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        page = Page(ROOT / "docs" / "tutorial.md", Path(folder))
        with contextlib.redirect_stdout(io.StringIO()):
            for block in page.run():
                if "to_html" in block.text:
                    break
        with livingdb.open("shop.ldb") as db:
            drawn = db.graph(limit=14).to_svg().replace(str(Path(folder) / "shop.ldb"), "shop.ldb")
        (ROOT / "docs" / "assets" / "tutorial.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
