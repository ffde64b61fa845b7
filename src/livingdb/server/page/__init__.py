"""The page that a server shows to people: built from `page/` with Node, and served as it is."""
