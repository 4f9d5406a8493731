"""What happens when rows of one key meet. Kernels: Arrow tables in and out, no files, no Spark."""
