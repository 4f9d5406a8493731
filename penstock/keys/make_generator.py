"""Makes the key generator that the settings name, from the table `GENERATORS` in `penstock/options/key_generator_names.py`.

The module of a generator imports pyspark, so it is imported only when a generator is made. Names can be looked up without Spark.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from penstock.errors import OptionError, Unsupported
from penstock.keys.generator import (
    GENERATOR_CLASS_OPTION,
    GENERATOR_TYPE_OPTION,
    PARTITION_PATH_OPTION,
    RECORD_KEY_OPTION,
    KeyGenerator,
    KeySettings,
)
from penstock.keys.partition_fields import split_typed_field
from penstock.options.key_generator_names import COMPLEX, CUSTOM, GENERATORS, NONPARTITIONED, SIMPLE

_BY_CLASS = {
    **{entry.java_class: entry for entry in GENERATORS},
    **{entry.avro_class: entry for entry in GENERATORS if entry.avro_class},
}
_BY_TYPE = {entry.type_name: entry for entry in GENERATORS if entry.type_name}


def make_key_generator(settings: KeySettings) -> KeyGenerator:
    """Return the key generator that the settings name by class or type.

    If the settings name none, the generator follows from the partition path fields and key fields: non-partitioned without
    partition path fields, custom for fields with a type (`ts:TIMESTAMP`), simple for one partition path field and at most one key
    field, otherwise complex.

    Raises:
        OptionError: the type is unknown, or a field is named twice.
        Unsupported: the class is not one of Hudi's own.
    """
    _check_named_once(RECORD_KEY_OPTION, settings.record_key_fields)
    _check_named_once(PARTITION_PATH_OPTION, settings.partition_path_fields)
    entry = _BY_CLASS[infer_generator_class(settings)]
    # Names of modules come from the table of generators, never from an option or a table's files.
    module = import_module(f"penstock.keys.{entry.module}")
    generator: KeyGenerator = getattr(module, entry.java_class.rpartition(".")[2])(settings)
    return generator


def infer_generator_class(settings: KeySettings) -> str:
    """Return the Java class name of the key generator for the settings.

    This is the class if set, otherwise the class of the type if set. If neither is set, the class follows from the fields:
    non-partitioned without partition path fields, custom for fields with a type (`ts:TIMESTAMP`), simple for one partition path
    field and at most one key field, otherwise complex.

    Raises:
        Unsupported: the class is not one of Hudi's own.
        OptionError: the type is unknown.
    """
    if settings.generator_class:
        return find_generator_class(settings.generator_class)
    if settings.generator_type:
        return _find_class_of_type(settings.generator_type)
    return _infer_class_by_fields(settings)


def find_generator_class(name: str, *, option: str = GENERATOR_CLASS_OPTION) -> str:
    """Return the Java class name of a generator, as Spark writers use it. `name` may also be the class of its Avro variant.

    For example `org.apache.hudi.keygen.SimpleAvroKeyGenerator` becomes `org.apache.hudi.keygen.SimpleKeyGenerator`.

    Args:
        option: the option that holds the name, for the error message.

    Raises:
        Unsupported: the class is not one of Hudi's own.
    """
    if name.strip() in _BY_CLASS:
        return _BY_CLASS[name.strip()].java_class
    near = get_close_matches(name, _BY_CLASS, n=1)
    known = sorted(entry.java_class for entry in GENERATORS)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}."
    raise Unsupported(f"{option}={name}: only Hudi's own key generators are available, Java classes cannot run. {hint}")


def _find_class_of_type(name: str) -> str:
    """Return the Java class name for a value of `hoodie.datasource.write.keygenerator.type`.

    Raise OptionError if the value is unknown.
    """
    type_name = name.strip().upper().removesuffix("_AVRO")
    if type_name not in _BY_TYPE:
        raise OptionError(f"{GENERATOR_TYPE_OPTION}={name}: unknown key generator type. Use one of {', '.join(_BY_TYPE)}.")
    return _BY_TYPE[type_name].java_class


def _infer_class_by_fields(settings: KeySettings) -> str:
    """Return the Java class name of the generator that fits the record key and partition path fields.

    Without partition path fields it is the non-partitioned generator, with typed ones (`ts:TIMESTAMP`) the custom generator. With
    one partition path field and at most one key field it is the simple generator, otherwise the complex one.
    """
    partition_fields = settings.partition_path_fields
    if not partition_fields:
        return NONPARTITIONED
    if all(split_typed_field(field) for field in partition_fields):
        return CUSTOM
    return SIMPLE if len(settings.record_key_fields) <= 1 and len(partition_fields) == 1 else COMPLEX


def _check_named_once(option: str, fields: tuple[str, ...]) -> None:
    """Raise OptionError if a field occurs twice among the fields of an option."""
    for field in fields:
        if fields.count(field) > 1:
            raise OptionError(f"{option}={','.join(fields)}: {field!r} is named twice. Name each column once.")
