"""The schema of a table in three forms: Avro on disk, Arrow in the kernels, Spark at the public API.

Reads no files and needs no Spark. `model.py` defines a form-independent model. `avro.py`, `arrow.py` and `spark.py` each convert
one form to the model and back; `convert.py` converts between the forms. `meta_columns.py` adds and removes Hudi's meta columns.
`evolution.py` computes the schema that a table has after a write.
"""

from penstock.schema.avro import avro_text, column_defaults
from penstock.schema.convert import (
    arrow_to_avro,
    avro_to_arrow,
    avro_to_spark,
    record_names,
    spark_to_arrow,
    spark_to_avro,
    with_storage_types,
)
from penstock.schema.evolution import evolve
from penstock.schema.meta_columns import (
    META_COLUMNS,
    OPERATION_COLUMN,
    has_operation_column,
    with_meta_columns,
    with_operation_column,
    without_meta_columns,
)

__all__ = [
    "META_COLUMNS",
    "OPERATION_COLUMN",
    "arrow_to_avro",
    "avro_text",
    "avro_to_arrow",
    "avro_to_spark",
    "column_defaults",
    "evolve",
    "has_operation_column",
    "record_names",
    "spark_to_arrow",
    "spark_to_avro",
    "with_meta_columns",
    "with_operation_column",
    "with_storage_types",
    "without_meta_columns",
]
