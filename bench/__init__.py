"""Measurements of LivingDB beside other systems: `python -m bench`."""
