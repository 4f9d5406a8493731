"""Settings of Azure Blob Storage and Data Lake Storage, from Hadoop's keys `fs.azure.*`, the environment and options.

A path names container and account (`abfss://container@account.dfs.core.windows.net/folder`). As in Hadoop, a key that ends in the
account's host name (`fs.azure.account.key.account.dfs.core.windows.net`) wins over the key without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from penstock.errors import OptionError
from penstock.options import (
    STORAGE_AZURE_ACCOUNT,
    STORAGE_AZURE_ACCOUNT_KEY,
    STORAGE_AZURE_CLIENT_ID,
    STORAGE_AZURE_CLIENT_SECRET,
    STORAGE_AZURE_ENDPOINT,
    STORAGE_AZURE_SAS_TOKEN,
    STORAGE_AZURE_TENANT_ID,
    Option,
)
from penstock.storage.object_store_client import ClientSettings
from penstock.storage.settings import Setting, Sources

ACCOUNT = Setting("azure account", (), ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"), option=STORAGE_AZURE_ACCOUNT)
ENDPOINT = Setting("azure endpoint", (), ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"), option=STORAGE_AZURE_ENDPOINT)
CREDENTIALS = "azure credentials"


def find_azure_settings(authority: str, sources: Sources) -> ClientSettings:
    """Return the settings of the client for a container.

    Args:
        authority: the part of the path that names the container: `container@account.dfs.core.windows.net`, or the container
            alone.
        sources: the places where settings are looked up.

    Raises:
        OptionError: neither the path nor a setting names the account.
    """
    container, _, host = authority.partition("@")
    account = host.partition(".")[0] or sources.get(ACCOUNT)
    if not account:
        raise OptionError(f"the path names no storage account of Azure for '{container}'; set {ACCOUNT.places}")
    config = {"account_name": account}
    endpoint = sources.get(ENDPOINT)
    if endpoint is not None:
        config["endpoint"] = endpoint.rstrip("/")
    suffixes = [f".{host}"] if host else []
    suffixes += [f".{account}.{service}.core.windows.net" for service in ("dfs", "blob")]
    credentials = _find_credentials(container, suffixes, sources)
    return ClientSettings("azure", container, tuple(sorted(config.items())), tuple(credentials.items()))


def _find_credentials(container: str, suffixes: list[str], sources: Sources) -> dict[str, str]:
    """Return credentials by obstore's names: a service principal, otherwise the account key, otherwise a SAS token.

    The dict is empty if no place has credentials. Then the client of each process uses the identity of its machine.

    Args:
        container: the name of the container.
        suffixes: the ends of Hadoop's keys that name the account, such as `.account.dfs.core.windows.net`.
    """

    setting = partial(_secret_setting, suffixes)
    client_id = sources.get(setting("fs.azure.account.oauth2.client.id", ("AZURE_CLIENT_ID",), STORAGE_AZURE_CLIENT_ID))
    if client_id is not None:
        principal = _find_principal(client_id, setting, sources)
        if principal:
            return principal
    key_setting = setting(
        "fs.azure.account.key",
        ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCESS_KEY"),
        STORAGE_AZURE_ACCOUNT_KEY,
    )
    key = sources.get(key_setting)
    if key is not None:
        return {"account_key": key}
    sas_keys = tuple(f"fs.azure.sas.{container}{suffix}" for suffix in suffixes)
    sas_setting = setting(
        "fs.azure.sas.fixed.token", ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"), STORAGE_AZURE_SAS_TOKEN, more=sas_keys
    )
    sas = sources.get(sas_setting)
    if sas is not None:
        return {"sas_key": sas.lstrip("?")}
    sources.add(CREDENTIALS, "identity of the machine or workload", "the machine")
    return {}


def _secret_setting(
    suffixes: list[str], key: str, environment: tuple[str, ...], option: Option[str | None], more: tuple[str, ...] = ()
) -> Setting:
    """Return the `Setting` of a secret, for `Sources.get`.

    Args:
        suffixes: the ends of Hadoop's keys that name the account.
        key: Hadoop's key. It is looked up with each suffix first, then without.
        environment: environment variables.
        option: Penstock's option for the secret; None: there is none.
        more: further keys of Hadoop, looked up before `key` without suffix.
    """
    keys = (*(f"{key}{suffix}" for suffix in suffixes), *more, key)
    return Setting(CREDENTIALS, keys, environment, option=option, secret=True)


def _find_principal(client_id: str, setting: Callable[..., Setting], sources: Sources) -> dict[str, str]:
    """Return a service principal by obstore's names; an empty dict if its secret or tenant is not set.

    A managed identity has a client id, but neither secret nor tenant.

    Args:
        setting: makes the `Setting` of a secret, from Hadoop's key, environment variables and the option.
    """
    secret = sources.get(setting("fs.azure.account.oauth2.client.secret", ("AZURE_CLIENT_SECRET",), STORAGE_AZURE_CLIENT_SECRET))
    token_address = sources.get(setting("fs.azure.account.oauth2.client.endpoint", (), STORAGE_AZURE_TENANT_ID))
    # Hadoop has no key for the tenant: it is a part of the address of the token service.
    in_address = re.search(r"https?://[^/]+/([^/]+)/", token_address or "")
    tenant = in_address[1] if in_address else (token_address or sources.environment.get("AZURE_TENANT_ID"))
    if secret is None or tenant is None:
        return {}
    return {"client_id": client_id, "client_secret": secret, "tenant_id": tenant}
