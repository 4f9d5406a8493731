"""The Parquet format of data files: the writer's settings, and the key-value metadata of the footer.

This module works on open files and knows no paths. Hudi's Java readers require three-level lists with the child `element`,
decimals as fixed-length bytes, timestamps in microseconds UTC, and no Arrow schema in the footer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.formats.dictionaries import repetitive_columns

ROW_GROUP_ROWS = 125_000
#: Hudi's name → Arrow's name, for the codecs that have different names.
_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}


def open_writer(sink: pa.NativeFile, sample: pa.Table, codec: str, dictionary: Sequence[str] | None = None) -> pq.ParquetWriter:
    """Open a Parquet writer to `sink`, for Arrow tables with the schema of `sample`.

    The writer has the settings that Hudi's readers require.

    Args:
        sample: the rows of a row group. If `dictionary` is None, their values decide which columns get a dictionary.
        codec: the compression codec, by Hudi's name.
        dictionary: the Parquet names of the columns to write with a dictionary; None: chosen from `sample`.
    """
    return pq.ParquetWriter(
        sink,
        sample.schema,
        compression=_CODECS.get(codec.lower(), codec.lower()),
        use_dictionary=list(dictionary) if dictionary is not None else repetitive_columns(sample),
        use_compliant_nested_type=True,
        store_schema=False,
        write_batch_size=ROW_GROUP_ROWS,
        use_deprecated_int96_timestamps=False,
    )


def read_footer(file: pq.ParquetFile) -> Mapping[str, str]:
    """Return the key-value metadata in the footer of a Parquet file, as strings."""
    metadata = file.metadata.metadata or {}
    return {key.decode(): value.decode("utf-8", "replace") for key, value in metadata.items()}
