"""The version of LivingDB."""

__version__ = "0.1.0"
