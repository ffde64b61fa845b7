"""The conditions and metrics there are, a file for each thing they are about."""
