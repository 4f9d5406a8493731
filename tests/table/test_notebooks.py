"""Penstock in a notebook: a real kernel runs the cells, and their outputs are compared one by one."""

from __future__ import annotations

import pytest

from penstock.spark.java import use_java
from tests.kit.notebooks import Cell, Output, run_notebook, tags_of_html, words_of_html

SETUP = """
import penstock
spark = penstock.session(master="local[1]", config={"spark.ui.enabled": "false"})
spark.sparkContext.setLogLevel("OFF")
in_tasks = {"penstock.small.batch.rows": 0, "penstock.small.batch.bytes": 0}

def trips(ts, *keys):
    return [{"id": key, "city": city, "ts": ts} for key, city in keys]

def slow(batches):
    import time
    for batch in batches:
        open(begun, "w").close()
        time.sleep(600)
        yield batch

def press_ctrl_c_when(path):
    import os, signal, threading, time
    def wait():
        while not os.path.exists(path):
            time.sleep(0.05)
        os.killpg(os.getpgid(0), signal.SIGINT)  # what the button of a notebook does
    threading.Thread(target=wait, daemon=True).start()
"""

#: The cells of the notebook by name, each with its outputs.
CELLS = {
    "create": (
        """
columns = "id string, city string, ts long"
table = penstock.Table.create("trips", columns, name="trips", record_key="id", partition_by="city", ordering="ts")
""",
        [],
    ),
    "table": ("table", ["execute_result: Table(PATH, name='trips', record_key='id', partition_by='city')"]),
    "write": (
        'table.insert(trips(1, ("a", "berlin"), ("b", "<script>alert(1)</script>")))',
        [
            "display_data: insert trips: done in N s (reading the incoming rows: 2 rows, N s; filling small files: N s; "
            "writing 2 file groups: 2 rows, N s)",
            "execute_result: Commit(INSTANT insert: 2 inserted; 2 files, SIZE, N s)",
        ],
    ),
    "write of Spark": (
        """
rows = spark.createDataFrame(trips(2, ("a", "berlin"), ("c", "paris")))
options = {"hoodie.table.name": "trips", "hoodie.datasource.write.recordkey.field": "id",
           "hoodie.datasource.write.partitionpath.field": "city", "hoodie.datasource.write.precombine.field": "ts", **in_tasks}
rows.write.format("hudi").options(**options).mode("append").save("trips")
""",
        [
            "display_data: upsert trips: done in N s (reading the incoming rows: 2 rows, N s; locating keys: N s; "
            "merging into 2 file groups: 2 rows, N s)"
        ],
    ),
    "silent write": (
        'table.delete("id = \'c\'", options={"penstock.progress": "off"})',
        ["execute_result: Commit(INSTANT delete: 1 deleted; 1 file, SIZE, N s)"],
    ),
    "history": (
        "table.history()",
        [
            "execute_result: History of trips\ninstant action inserted updated deleted files size\n─\n"
            "INSTANT delete 0 0 1 1 SIZE\nINSTANT upsert 1 1 0 2 SIZE\nINSTANT insert 2 0 0 2 SIZE"
        ],
    ),
    "printed history": (
        "print(table.history(limit=1))",
        ["stdout: History of trips\ninstant action inserted updated deleted files size\n─\nINSTANT delete 0 0 1 1 SIZE"],
    ),
    "files": (
        "table.files()",
        [
            "execute_result: Files of trips\npartition file group written at rows size\n─\n"
            "<script>alert(1)</script> FILE… INSTANT 1 SIZE\nberlin FILE… INSTANT 1 SIZE\nparis FILE… INSTANT 0 SIZE"
        ],
    ),
    "health": (
        "table.health()",
        [
            "execute_result: Health of trips\nmeasure value suggestion\n─\nsmall files 3 of 3 fine\nrows per file 0 fine\n"
            "log to base size no logs: a copy-on-write table fine\npending nothing fine\n"
            "days since the last clean never cleaned fine\ntimeline 3 instants; nothing archived fine"
        ],
    ),
    "no savepoints": ("table.savepoints()", ["execute_result: Savepoints of trips: none"]),
    "savepoints": (
        'saved = table.savepoint(user="anna", comment="<b>month end</b>")\ntable.savepoints()',
        [
            "execute_result: Savepoints of trips\ninstant made user files comment\n─\nINSTANT TIME anna 3 <b>month end</b>",
        ],
    ),
    "plan": (
        'table.plan_upsert(trips(3, ("a", "berlin"), ("d", "tokyo")))',
        [
            "execute_result: upsert of 2 rows (SIZE) by SIMPLE: 2 file groups, SIZE rewritten, write amplification about N\n"
            "partition file group rows changed rows new rewritten\n─\nberlin FILE 1 0 SIZE\ntokyo new 0 1 SIZE"
        ],
    ),
    "merge plan": (
        'table.explain_merge(trips(3, ("a", "berlin")))',
        [
            "execute_result: Merge plan of trips\nkey partition rows stored incoming outcome why payload\n─\n"
            "a berlin 1 2 3 update the incoming row replaces the stored one OverwriteWithLatestAvroPayload"
        ],
    ),
    "index": (
        "table.index_report(limit=1)",
        [
            "execute_result: Index of trips\n"
            "instant operation index rows files opened holding compared read once false positives\n─\n"
            "INSTANT delete SIMPLE 0 0 0 0 0 1"
        ],
    ),
    "file check": (
        "table.check_files()",
        ["execute_result: Files of trips: all is well, no file is missing and the timeline explains every file"],
    ),
    "due services": (
        "table.run_due()",
        ["execute_result: Services of trips\nservice result seconds\n─\nclean not due N\narchive not due N"],
    ),
    "failed write": (
        'table.upsert([{"id": None, "city": "berlin", "ts": 4}])',
        [
            "display_data: upsert trips: failed after N s while reading the incoming rows",
            'error: RecordKeyError: recordKey value: "null" for field: "id" cannot be null or empty. Filter such rows out, or choose '
            "another record key than id",
        ],
    ),
    "refused write": (
        'table.upsert(trips(4, ("a", "berlin")), options={"hoodie.index.type": "NONE"})',
        None,
    ),
    "write with a clean": (
        """
table.delete_savepoint(saved.instant)
commit = table.upsert(trips(5, ("a", "berlin")), options={"hoodie.cleaner.commits.retained": 1})
""",
        [
            "display_data: upsert trips: done in N s (reading the incoming rows: 1 row, N s; locating keys: N s; "
            "merging into 1 file group: 1 row, N s)",
            "display_data: clean trips: done in N s (deleting 2 old files: N s)",
        ],
    ),
    "clustering": (
        "table.cluster()",
        [
            "display_data: cluster trips: done in N s (clustering 3 file groups: 2 rows, N s)",
            "execute_result: [Commit(INSTANT cluster: 2 inserted; 2 files, SIZE)]",
        ],
    ),
    "nothing to cluster": (
        'table.schedule_clustering(options={"hoodie.clustering.plan.strategy.small.file.limit": 0})',
        [],
    ),
    # The last cell: on PySpark 3.5 the task after a cancelled one may get its dead Python worker, and fail.
    "interrupted write": (
        """
import os
begun = os.path.abspath("begun")
press_ctrl_c_when(begun)
table.upsert(rows.mapInArrow(slow, rows.schema))
""",
        None,
    ),
}
#: Results whose HTML has the words of their plain text.
SAME_WORDS = (
    "history", "files", "health", "no savepoints", "savepoints", "plan", "merge plan", "index", "file check", "due services",
)  # fmt: skip


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cell]:
    use_java()
    sources = [SETUP, *(source.strip() for source, _ in CELLS.values())]
    executed = run_notebook(sources, tmp_path_factory.mktemp("notebook"))
    return dict(zip(["setup", *CELLS], executed, strict=True))


def outputs_of(cells: dict[str, Cell]) -> list[Output]:
    """All outputs but those of the first cell, in which Spark logs to stderr as it starts."""
    outputs: list[Output] = []
    for name, cell in cells.items():
        if name != "setup":
            outputs.extend(cell.outputs)
    return outputs


@pytest.mark.everywhere
@pytest.mark.parametrize("name", [name for name, (_, expected) in CELLS.items() if expected is not None])
def test_a_cell_has_these_outputs_and_no_others(cells: dict[str, Cell], name: str) -> None:
    assert cells[name].shown == CELLS[name][1]


def test_a_write_updates_one_line(cells: dict[str, Cell]) -> None:
    (kind, first), *updates = cells["write of Spark"].messages
    assert kind == "display_data"
    assert first == "upsert trips: reading the incoming rows …"
    assert {kind for kind, _ in updates} == {"update_display_data"}
    begun = [text for _, text in updates if text.endswith("…")]
    assert begun == ["upsert trips: locating keys …", "upsert trips: merging into 2 file groups …"]
    assert updates[-1][1].startswith("upsert trips: done in ")


def test_an_interrupted_write_leaves_one_line_that_says_so(cells: dict[str, Cell]) -> None:
    line, error = cells["interrupted write"].shown
    assert line == "display_data: upsert trips: interrupted after N s while reading the incoming rows"
    assert error.startswith("error: KeyboardInterrupt: write INSTANT of ")
    assert error.endswith("was interrupted and rolled back. The table is as it was before")
    seconds = [text for _, text in cells["interrupted write"].messages if text.endswith(" s")]
    assert all(text.startswith("upsert trips: reading the incoming rows … ") for text in seconds)


def test_a_write_that_is_refused_before_it_begins_shows_its_error_alone(cells: dict[str, Cell]) -> None:
    (error,) = cells["refused write"].shown
    assert error.startswith("error: OptionError: ")


def test_every_display_and_result_has_plain_text_and_html(cells: dict[str, Cell]) -> None:
    shown = [output for output in outputs_of(cells) if output.kind in ("display_data", "execute_result")]
    assert len(shown) >= len(SAME_WORDS)
    for output in shown:
        assert output.text.strip()
        assert words_of_html(output.html)


def test_no_output_has_color_codes_or_speaks_of_widgets(cells: dict[str, Cell]) -> None:
    for output in outputs_of(cells):
        assert "\x1b" not in output.text
        assert "ipywidgets" not in output.text + output.html


@pytest.mark.parametrize("name", SAME_WORDS)
def test_html_says_what_plain_text_says(cells: dict[str, Cell], name: str) -> None:
    (output,) = cells[name].outputs
    words = [word for word in output.text.split() if set(word) != {"─"}]
    assert words_of_html(output.html) == words


def test_names_from_a_table_are_shown_and_not_run(cells: dict[str, Cell]) -> None:
    assert "<script>alert(1)</script>" in words_of_html(cells["files"].outputs[0].html)
    for output in outputs_of(cells):
        assert tags_of_html(output.html) <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "div", "span", "b"}


def test_the_first_cell_displays_nothing(cells: dict[str, Cell]) -> None:
    assert {output.kind for output in cells["setup"].outputs} <= {"stdout", "stderr", "execute_result"}
