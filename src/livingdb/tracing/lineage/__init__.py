"""Lineage: the rows and columns behind a derived object, and what rows have a part in."""
