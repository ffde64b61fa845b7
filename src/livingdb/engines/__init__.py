"""Engines: what answers queries.  Here the embedded one, DuckDB in this process."""
