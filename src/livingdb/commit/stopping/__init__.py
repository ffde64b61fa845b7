"""Syncs that stop, and go on: held, detached, altered, brought into step again."""
