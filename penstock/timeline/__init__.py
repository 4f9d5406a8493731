"""The timeline: what happened to a table, when, and how far it has come."""
