"""The names of tables in OpenLineage events."""

from __future__ import annotations

import pytest

from penstock.hooks.lineage import name_dataset


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("/data/trips", "file", "/data/trips"),
        ("file:///data/trips", "file", "/data/trips"),
        ("s3://lake/raw/trips", "s3://lake", "raw/trips"),
        ("s3a://lake/raw/trips", "s3://lake", "raw/trips"),
        ("gs://lake/trips/", "gs://lake", "trips"),
        ("abfss://raw@acme.dfs.core.windows.net/trips", "abfss://raw@acme.dfs.core.windows.net", "trips"),
        ("hdfs://nn:8020/data/trips", "hdfs://nn:8020", "/data/trips"),
    ],
)
def test_a_dataset_has_the_names_that_other_programs_use(uri: str, namespace: str, name: str) -> None:
    dataset = name_dataset(uri)
    assert (dataset.namespace, dataset.name, dataset.uri) == (namespace, name, uri)
