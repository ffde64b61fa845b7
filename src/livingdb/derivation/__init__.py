"""Derived objects: views, models and functions; their plans, and how they follow their sources
incrementally.
"""
