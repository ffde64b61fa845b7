"""Views: how derived tables follow the tables they are made of."""
