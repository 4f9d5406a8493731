"""The way up: from a table to a DataFrame."""
