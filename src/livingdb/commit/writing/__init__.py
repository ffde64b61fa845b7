"""What a transaction writes, how writers take turns, and how small writes are stored together."""
