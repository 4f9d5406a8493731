"""Who may import whom, who opens files, and who reads the clock; read from the source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "penstock"

#: Upper layers first. A module imports from layers below its own, and from its own package.
LAYERS = [
    {"spark", "cli", "api", "bundle", "testing"},
    {"streams"},
    {"door"},
    {"write", "read", "services"},
    {"commit"},
    {"index", "hooks"},
    {"sync"},
    {"table"},
    {"filegroup"},
    {"timeline"},
    {"workers"},
    {"storage"},
    {"columns", "keys", "merge", "formats"},
    {"options", "schema", "progress"},
    {
        "registered",
        "hive_metastore",
        "error_text",
        "package_zip",
        "report_table",
    },
    {"load_part", "errors", "clock", "process", "interrupt", "user_warning"},
]
WITHOUT_SPARK = {"merge", "formats", "timeline", "filegroup", "storage", "options", "schema", "table"}
#: Modules that look at the machine, not at a table: Java's place is found before there is a session; processes are in /proc.
MACHINE = {"spark/java.py", "process.py"}
FILE_MODULES = {"pathlib", "shutil", "tempfile", "glob"}
CLOCK_MODULES = {"time", "uuid", "random", "secrets"}
OS_FILES = {
    "open", "remove", "unlink", "rename", "replace", "link", "symlink", "makedirs", "mkdir", "rmdir", "removedirs",
    "listdir", "scandir", "walk", "stat", "fsync", "sync", "truncate", "chmod",
}  # fmt: skip
ARROW_FILES = {"OSFile", "memory_map", "MemoryMappedFile", "input_stream", "output_stream", "LocalFileSystem"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """Return the layer's name of a module: its package, or its own name."""
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def level_of(part: str) -> int:
    return next((level for level, parts in enumerate(LAYERS) if part in parts), -1)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports_of(tree: ast.AST, *, typing: bool = False) -> Iterator[tuple[int, str]]:
    """Return lines and full names of imports; also those for type checkers alone if `typing` is set."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not typing:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        else:
            yield from imports_of(node, typing=typing)


@cache
def calls_of(tree: ast.AST) -> Sequence[tuple[int, str]]:
    """Return lines and dotted names of calls."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute))
    return [(node.lineno, ast.unparse(node.func)) for node in calls]


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def wrong_in(look: Callable[[Path], list[str]], modules: Sequence[Path] = MODULES) -> dict[str, list[str]]:
    """Return the findings of a check, by module."""
    found = {name_of(path): look(path) for path in modules}
    return {name: wrong for name, wrong in found.items() if wrong}


def apart_from(part: str) -> list[Path]:
    """Return all modules without those of a part and those that inspect the machine."""
    return [path for path in MODULES if part_of(path) != part and name_of(path) not in MACHINE]


def test_every_part_has_a_place_among_the_layers() -> None:
    parts = {part_of(path) for path in MODULES} - {"__init__"}
    assert {part for part in parts if level_of(part) < 0} == set(), "add them here and to the style page"


def test_a_module_imports_only_from_layers_below() -> None:
    def look(path: Path) -> list[str]:
        part = part_of(path)
        found = [
            (line, name.split(".")[1])
            for line, name in imports_of(tree_of(path), typing=True)
            if name.startswith("penstock.") and name.split(".")[1] not in (part, "__version__")
        ]
        return [f"line {line}: {other}" for line, other in found if level_of(other) <= level_of(part)]

    assert wrong_in(look, [path for path in MODULES if part_of(path) != "__init__"]) == {}


def test_only_the_top_layer_imports_the_package_itself() -> None:
    """`import penstock` leads to every module: below the top layer it would hide an import from a layer above."""
    modules = {part for parts in LAYERS for part in parts}

    def look(path: Path) -> list[str]:
        names = ((line, name) for line, name in imports_of(tree_of(path), typing=True) if name.partition(".")[0] == "penstock")
        return [f"line {line}: {name}" for line, name in names if name.partition(".")[2].partition(".")[0] not in modules]

    assert wrong_in(look, [path for path in MODULES if part_of(path) not in {*LAYERS[0], "__init__"}]) == {}


def test_kernels_and_ports_do_not_import_spark() -> None:
    def look(path: Path) -> list[str]:
        return [f"line {line}" for line, name in imports_of(tree_of(path)) if name.split(".")[0] in ("pyspark", "py4j")]

    assert wrong_in(look, [path for path in MODULES if part_of(path) in WITHOUT_SPARK]) == {}


def test_no_module_uses_what_spark_connect_lacks() -> None:
    forbidden = {"_jvm", "_jdf", "_jsparkSession", "_sc", "rdd", "sparkContext", "_jwrite", "_jreader"}

    def look(path: Path) -> list[str]:
        attributes = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute))
        return [f"line {node.lineno}: {node.attr}" for node in attributes if node.attr in forbidden]

    assert wrong_in(look) == {}


def test_only_storage_opens_files() -> None:
    def look(path: Path) -> list[str]:
        tree = tree_of(path)
        wrong = [f"line {line}: {name}" for line, name in imports_of(tree) if name.split(".")[0] in FILE_MODULES]
        for line, name in calls_of(tree):
            head, _, last = name.rpartition(".")
            if (
                name in ("open", "io.open")
                or (head == "os" and last in OS_FILES)
                or (head in ("pa", "pyarrow") and last in ARROW_FILES)
            ):
                wrong.append(f"line {line}: {name}")
        return wrong

    assert wrong_in(look, apart_from("storage")) == {}


def test_only_the_clock_reads_time_random_numbers_and_ids() -> None:
    asked = {"now", "utcnow", "today"}

    def look(path: Path) -> list[str]:
        tree = tree_of(path)
        wrong = [f"line {line}: {name}" for line, name in imports_of(tree) if name.split(".")[0] in CLOCK_MODULES]
        return wrong + [
            f"line {line}: {name}()"
            for line, name in calls_of(tree)
            if name.rpartition(".")[2] in asked and name.split(".")[0] in ("datetime", "date")
        ]

    assert wrong_in(look, apart_from("clock")) == {}


def test_every_module_has_a_docstring() -> None:
    def look(path: Path) -> list[str]:
        tree = tree_of(path)
        return [] if ast.get_docstring(tree) or not tree.body else ["no docstring"]

    assert wrong_in(look) == {}


def test_no_module_imports_or_runs_a_name_from_data() -> None:
    """A table's files can name classes; none of those names may ever be loaded."""
    allowed = {
        "__init__.py",
        "load_part.py",  # classes and functions that LOCKS, INDEXES, CALLBACKS and the payloads' tables name, all constants
        "keys/make_generator.py",  # modules that GENERATORS names, a constant of the package
        "workers/run_kernels.py",  # task descriptions that the driver pickled, inside the function that Spark unpickles
        "cli/commands/explain_merge.py",
    }  # the last: an argument
    risky = {"eval", "exec", "__import__", "importlib.import_module", "import_module", "pickle.loads", "pickle.load"}

    def look(path: Path) -> list[str]:
        return [f"line {line}: {name}" for line, name in calls_of(tree_of(path)) if name in risky]

    assert wrong_in(look).keys() <= allowed
