"""The address and login of a HiveServer2, from a JDBC URL."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import options as o
from penstock.errors import OptionError, Unsupported
from penstock.sync.statement_clients import parse_jdbc_url


def parse(url: str) -> dict[str, Any]:
    """Return the arguments with which a client connects to the server of a URL."""
    return parse_jdbc_url(url, "hive", "hive", "jdbcurl").arguments()


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("jdbc:hive2://h", {"host": "h", "port": 10000, "user": "hive", "password": "hive", "auth_mechanism": "PLAIN"}),
        ("jdbc:hive2://h:10001/sales;auth=noSasl", {"port": 10001, "auth_mechanism": "NOSASL", "use_ssl": False}),
        ("jdbc:hive2://h/;ssl=true;transportMode=http;httpPath=gate", {"use_ssl": True, "http_path": "gate"}),
        ("jdbc:hive2://h/default;user=ann;password=pa55", {"user": "ann", "password": "pa55"}),
    ],
)
def test_a_url_names_server_and_login(url: str, arguments: dict[str, Any]) -> None:
    assert parse(url).items() >= arguments.items()


@pytest.mark.parametrize("url", ["", "hive2://h;password=pa55", "jdbc:mysql://h;password=pa55", "jdbc:hive2://h:x;password=pa55"])
def test_a_url_of_another_form_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(OptionError, match="expected jdbc:hive2://host:10000") as caught:
        parse(url)
    assert "pa55" not in str(caught.value)


def test_no_password_is_shown() -> None:
    url = "jdbc:hive2://h/default;user=ann;password=pa55"
    assert "pa55" not in repr(parse_jdbc_url(url, "hive", "hive", "jdbcurl"))
    assert "pa55" not in repr(o.read_options({o.HIVE_SYNC_JDBC_URL.key: url}))


def test_kerberos_is_refused() -> None:
    with pytest.raises(Unsupported, match="Kerberos"):
        parse("jdbc:hive2://h/default;principal=hive/_HOST@EXAMPLE.COM")
