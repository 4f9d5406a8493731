"""The timeline: the actions on a table, each with its time and state, and the content of their files."""
