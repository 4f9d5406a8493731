"""The benchmark: table engines side by side on one workload, one input, one machine. See README.md in this folder."""
