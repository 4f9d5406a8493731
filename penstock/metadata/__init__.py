"""Where the list of a table's files comes from."""
