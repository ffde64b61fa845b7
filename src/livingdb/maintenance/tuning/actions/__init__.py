"""What tuning does: one file for each kind of action."""
