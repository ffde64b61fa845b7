"""Blocks of queries as operations on arrays, for the few rows that a change brings."""
