"""File groups: names, slices, and what a query sees of them."""
