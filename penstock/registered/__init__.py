"""Functions of users by name: merge functions, locks, sync tools, commit callbacks and validators.

`registry.py` holds the mechanism: one class, `Registry`, which knows the functions that were registered in code and those that
installed packages declare. Each other module holds the decorators of one or two kinds of function, and their registry. The
package `options` looks up names in these registries, so this package is in a layer below it.
"""
