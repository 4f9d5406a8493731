"""The table of key generators. A new one is a file, a name in `names.py` and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.errors import OptionError
from penstock.keys import names
from penstock.keys.complex import ComplexKeyGenerator
from penstock.keys.custom import CustomKeyGenerator
from penstock.keys.generator import PARTITION_PATH_OPTION, RECORD_KEY_OPTION, KeyGenerator, KeySettings
from penstock.keys.global_delete import GlobalDeleteKeyGenerator
from penstock.keys.nonpartitioned import NonpartitionedKeyGenerator
from penstock.keys.simple import SimpleKeyGenerator
from penstock.keys.sql import wrapped_by_sql
from penstock.keys.timestamp import TimestampBasedKeyGenerator

_SQL_ORIGIN_OPTION = "hoodie.sql.origin.keygen.class"


def key_generator(settings: KeySettings) -> KeyGenerator:
    """Give the generator that the settings ask for, by class, type or number of fields.

    Raises:
        OptionError: the generator is unknown, or a field is named twice.
    """
    _check_named_once(RECORD_KEY_OPTION, settings.record_key_fields)
    _check_named_once(PARTITION_PATH_OPTION, settings.partition_path_fields)
    return KEY_GENERATORS[names.infer_generator(settings)](settings)


def _sql(settings: KeySettings) -> KeyGenerator:
    origin = None
    if settings.sql_origin_class:
        java_class = names.class_named(settings.sql_origin_class, option=_SQL_ORIGIN_OPTION)
        if java_class == names.SQL:
            raise OptionError(f"{_SQL_ORIGIN_OPTION}={java_class}: the SQL key generator cannot wrap itself.")
        origin = KEY_GENERATORS[java_class](replace(settings, generator_class=java_class))
    return wrapped_by_sql(settings, origin)


_BY_CLASS: dict[str, Callable[[KeySettings], KeyGenerator]] = {
    names.SIMPLE: SimpleKeyGenerator,
    names.COMPLEX: ComplexKeyGenerator,
    names.TIMESTAMP: TimestampBasedKeyGenerator,
    names.CUSTOM: CustomKeyGenerator,
    names.NONPARTITIONED: NonpartitionedKeyGenerator,
    names.GLOBAL_DELETE: GlobalDeleteKeyGenerator,
    names.SQL: _sql,
}

KEY_GENERATORS: Mapping[str, Callable[[KeySettings], KeyGenerator]] = {
    **{name: _BY_CLASS[java_class] for name, java_class in names.CLASSES.items()},
    **{name.lower(): _BY_CLASS[java_class] for name, java_class in names.TYPES.items()},
}
"""Java class names, the Avro variants' too, and short names."""


def _check_named_once(option: str, fields: tuple[str, ...]) -> None:
    for field in fields:
        if fields.count(field) > 1:
            raise OptionError(f"{option}={','.join(fields)}: {field!r} is named twice. Name each column once.")
