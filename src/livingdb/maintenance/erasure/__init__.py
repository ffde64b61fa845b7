"""Erasure: rows leave every version of a table, and every file."""
