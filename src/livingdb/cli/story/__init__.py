"""The story of the demonstration: one shop, told in chapters as they happen."""

from __future__ import annotations

from livingdb.cli.story.chapters import tell
from livingdb.cli.story.page import Chapter, Code, Listing, Part, Sentence

__all__ = ["Chapter", "Code", "Listing", "Part", "Sentence", "tell"]
