"""Finds the functions of the package that run in Spark's workers, by the calls that send them there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT

#: Spark's own functions that run a function in workers, with the position of that argument.
SPARK_CALLS = {"mapInArrow": 0, "mapInPandas": 0, "applyInArrow": 0, "foreachPartition": 0}


def find_kernels() -> set[tuple[str, str]]:
    """Return (module, name) of each function that is sent to workers.

    A function is sent to workers if it is passed to Spark, or to a function of the package as the parameter `kernel`, alone or
    as part of a `functools.partial`.
    """
    trees = {_module_name(path): ast.parse(path.read_text()) for path in sorted((ROOT / "penstock").rglob("*.py"))}
    positions = dict(SPARK_CALLS)
    for tree in trees.values():
        positions |= _kernel_positions(tree)
    kernels: set[tuple[str, str]] = set()
    for module, tree in trees.items():
        known = _known_functions(module, tree)
        partials = _assigned_calls(tree)
        for argument in _kernel_arguments(tree, positions):
            for name in _names_in(argument, partials):
                if name in known:
                    kernels.add(known[name])
    return kernels


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _kernel_positions(tree: ast.Module) -> dict[str, int]:
    """Return the functions and methods that have a parameter `kernel`, with its position in a call."""
    positions = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            if "kernel" in names:
                positions[node.name] = names.index("kernel")
    return positions


def _known_functions(module: str, tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Return (module, name) of the functions of the package that a module defines or imports, by their name in the module."""
    known = {node.name: (module, node.name) for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock"):
            for alias in node.names:
                if alias.name.lstrip("_")[:1].islower():  # no classes and constants
                    known[alias.asname or alias.name] = (str(node.module), alias.name)
    return known


def _assigned_calls(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """Return the calls that a module assigns to variables, by variable: `kernel = partial(…)`."""
    calls: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            calls.setdefault(node.targets[0].id, []).append(node.value)
    return calls


def _kernel_arguments(tree: ast.Module, positions: dict[str, int]) -> Iterator[ast.expr]:
    """Yield the arguments of calls that are kernels."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        callee = ast.unparse(node.func).rpartition(".")[2]
        position = positions.get(callee)
        if position is not None and position < len(node.args):
            yield node.args[position]
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "kernel")


def _names_in(argument: ast.expr, partials: dict[str, list[ast.expr]]) -> Iterator[str]:
    """Yield the names in an argument: its own, those of a `partial`, and those of a `partial` that a variable holds."""
    if isinstance(argument, ast.Name):
        yield argument.id
        for call in partials.get(argument.id, ()):
            yield from _names_in(call, {})
    elif isinstance(argument, ast.Call) and ast.unparse(argument.func).endswith("partial"):
        for part in argument.args:
            yield from _names_in(part, partials)
