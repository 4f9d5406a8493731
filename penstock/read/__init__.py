"""Queries: from what is asked of a table to a DataFrame."""
