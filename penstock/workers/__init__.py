"""Runs kernels in Spark's Python workers, or on threads of the driver."""
