"""File groups: names of their files, slices, what a query sees of them, and how base files and logs are read and written."""
