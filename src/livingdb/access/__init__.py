"""Who may do what: people, roles on branches, and what of the graph each of them sees."""
