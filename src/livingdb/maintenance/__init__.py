"""Maintenance: check, compact, storage report."""
