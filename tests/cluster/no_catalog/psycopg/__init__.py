"""Stands in for the driver of PostgreSQL on the workers: a task never opens the catalog."""

raise ImportError("a Spark task tried to open the catalog")
