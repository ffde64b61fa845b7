"""Derived objects: their versions, made, refreshed when they are due, and looked up."""
