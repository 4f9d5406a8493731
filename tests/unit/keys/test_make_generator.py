"""Which key generator is meant."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.errors import OptionError, Unsupported
from penstock.keys import KeySettings, infer_generator_class

PACKAGE = "org.apache.hudi.keygen."


@pytest.mark.parametrize(
    ("keys", "partitions", "expected"),
    [
        (("id",), (), "NonpartitionedKeyGenerator"),
        (("id", "b"), (), "NonpartitionedKeyGenerator"),
        ((), (), "NonpartitionedKeyGenerator"),
        (("id",), ("p",), "SimpleKeyGenerator"),
        ((), ("p",), "SimpleKeyGenerator"),
        (("id", "b"), ("p",), "ComplexKeyGenerator"),
        (("id",), ("p", "q"), "ComplexKeyGenerator"),
        ((), ("p", "q"), "ComplexKeyGenerator"),
        (("id",), ("p:SIMPLE", "q:timestamp"), "CustomKeyGenerator"),
    ],
)
def test_the_number_of_fields_decides_when_nothing_is_named(
    keys: tuple[str, ...], partitions: tuple[str, ...], expected: str
) -> None:
    assert infer_generator_class(KeySettings(keys, partitions)) == PACKAGE + expected


def test_a_named_class_wins_over_the_type_and_the_type_over_the_fields() -> None:
    one_each = (("id",), ("p",))
    assert infer_generator_class(KeySettings(*one_each, generator_type="complex")) == f"{PACKAGE}ComplexKeyGenerator"
    both = KeySettings(*one_each, generator_type="COMPLEX", generator_class=f"{PACKAGE}CustomKeyGenerator")
    assert infer_generator_class(both) == f"{PACKAGE}CustomKeyGenerator"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SimpleAvroKeyGenerator", "SimpleKeyGenerator"),
        ("ComplexAvroKeyGenerator", "ComplexKeyGenerator"),
        ("TimestampBasedAvroKeyGenerator", "TimestampBasedKeyGenerator"),
        ("CustomAvroKeyGenerator", "CustomKeyGenerator"),
        ("NonpartitionedAvroKeyGenerator", "NonpartitionedKeyGenerator"),
        ("GlobalAvroDeleteKeyGenerator", "GlobalDeleteKeyGenerator"),
    ],
)
def test_an_avro_variant_is_its_spark_sibling(name: str, expected: str) -> None:
    assert infer_generator_class(KeySettings(("id",), ("p",), generator_class=PACKAGE + name)) == PACKAGE + expected


@pytest.mark.parametrize("name", ["NON_PARTITION", "non_partition", "NON_PARTITION_AVRO"])
def test_a_type_is_known_in_any_case_and_for_avro(name: str) -> None:
    assert infer_generator_class(KeySettings(("id",), ("p",), generator_type=name)) == f"{PACKAGE}NonpartitionedKeyGenerator"


def test_a_foreign_class_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(Unsupported, match=rf"Did you mean {PACKAGE}SimpleKeyGenerator"):
        infer_generator_class(KeySettings(("id",), ("p",), generator_class=f"{PACKAGE}SimpelKeyGenerator"))


def test_an_unknown_type_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="keygenerator.type=FANCY.*NON_PARTITION"):
        infer_generator_class(KeySettings(("id",), ("p",), generator_type="FANCY"))


def test_paths_and_settings_need_no_pyspark() -> None:
    script = "import sys, penstock.keys, penstock.keys.partition_path; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
