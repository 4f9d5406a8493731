"""`GENERATORS`, the list of key generators: for each its names in options and in `hoodie.properties`, and its module.

To add a key generator, write a module in `penstock/keys` and add an entry to `GENERATORS`. Its class has the name of the Java
class. `penstock/keys/make_generator.py` creates generators. The option catalogue accepts the names in this list.
"""

from __future__ import annotations

from dataclasses import dataclass

_PACKAGE = "org.apache.hudi.keygen."
SIMPLE = f"{_PACKAGE}SimpleKeyGenerator"
COMPLEX = f"{_PACKAGE}ComplexKeyGenerator"
TIMESTAMP = f"{_PACKAGE}TimestampBasedKeyGenerator"
CUSTOM = f"{_PACKAGE}CustomKeyGenerator"
NONPARTITIONED = f"{_PACKAGE}NonpartitionedKeyGenerator"
GLOBAL_DELETE = f"{_PACKAGE}GlobalDeleteKeyGenerator"
SQL = "org.apache.spark.sql.hudi.command.SqlKeyGenerator"


@dataclass(frozen=True)
class GeneratorEntry:
    """One entry of the list of key generators: the names of its Java classes and its type, and its module in `penstock.keys`."""

    #: The name of the Java class that Spark writers use. Tables store this name.
    java_class: str
    #: The name of the module in `penstock.keys` that defines the class.
    module: str
    #: The value of `hoodie.datasource.write.keygenerator.type`; None if there is none. A value with suffix `_AVRO` exists too.
    type_name: str | None = None
    #: The name of the Java class that Hudi's writers other than Spark use; None if there is none. Tables may store this name.
    avro_class: str | None = None


GENERATORS = (
    GeneratorEntry(SIMPLE, "simple", "SIMPLE", f"{_PACKAGE}SimpleAvroKeyGenerator"),
    GeneratorEntry(COMPLEX, "complex", "COMPLEX", f"{_PACKAGE}ComplexAvroKeyGenerator"),
    GeneratorEntry(TIMESTAMP, "timestamp", "TIMESTAMP", f"{_PACKAGE}TimestampBasedAvroKeyGenerator"),
    GeneratorEntry(CUSTOM, "custom", "CUSTOM", f"{_PACKAGE}CustomAvroKeyGenerator"),
    GeneratorEntry(NONPARTITIONED, "nonpartitioned", "NON_PARTITION", f"{_PACKAGE}NonpartitionedAvroKeyGenerator"),
    GeneratorEntry(GLOBAL_DELETE, "global_delete", "GLOBAL_DELETE", f"{_PACKAGE}GlobalAvroDeleteKeyGenerator"),
    GeneratorEntry(SQL, "sql"),
)

#: Every class name that Penstock accepts: those of Spark writers first.
GENERATOR_CLASSES = (
    *(entry.java_class for entry in GENERATORS),
    *(entry.avro_class for entry in GENERATORS if entry.avro_class),
)
#: The values of `hoodie.datasource.write.keygenerator.type`.
GENERATOR_TYPES = tuple(entry.type_name for entry in GENERATORS if entry.type_name)
