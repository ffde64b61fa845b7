"""The schema changes, a file for each."""
