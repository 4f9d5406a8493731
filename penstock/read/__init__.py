"""Queries: the options of a read become a `Query`, then a `QueryPlan` of file slices, then a lazy DataFrame or an `ArrowScan`."""
