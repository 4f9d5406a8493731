"""A table at one moment: properties, timeline, partitions, latest file slices, pending plans, savepoints and merge rules."""
