"""The timeline: the actions on a table, each with its time and state, and the content of the action's files in `.hoodie`."""
