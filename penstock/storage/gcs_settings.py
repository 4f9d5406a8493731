"""Settings of Google Cloud Storage, from the keys of its Hadoop connector (`fs.gs.*`), the environment and options.

The driver reads the key file of a service account. The content of the file travels to the workers, which may not have the file.
"""

from __future__ import annotations

import json

from penstock.options import STORAGE_GCS_ANONYMOUS, STORAGE_GCS_ENDPOINT, STORAGE_GCS_KEY_FILE
from penstock.storage.object_store_client import ClientSettings
from penstock.storage.settings import Setting, Sources, read_key_file

ENDPOINT = Setting("gcs endpoint", ("fs.gs.storage.root.url",), ("STORAGE_EMULATOR_HOST",), option=STORAGE_GCS_ENDPOINT)
KEY_FILE = Setting(
    "gcs key",
    (
        "fs.gs.auth.service.account.json.keyfile",
        "fs.gs.auth.service.account.keyfile",
        "google.cloud.auth.service.account.json.keyfile",
    ),
    ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"),
    option=STORAGE_GCS_KEY_FILE,
)
AUTH_TYPE = Setting("gcs auth type", ("fs.gs.auth.type", "google.cloud.auth.type"))
NO_AUTH = Setting("gcs anonymous", ("fs.gs.auth.null.enable",), option=STORAGE_GCS_ANONYMOUS)
#: A key with which obstore sends no credentials.
_NO_KEY = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}


def find_gcs_settings(bucket: str, sources: Sources) -> ClientSettings:
    """Return the settings of the client for a bucket, as found in `sources`, the places where settings are looked up.

    Raises:
        OptionError: the key file cannot be read, or a setting has a wrong value.
    """
    config: dict[str, str] = {}
    credentials: dict[str, str] = {}
    endpoint = sources.get(ENDPOINT)
    if endpoint is not None:
        is_emulator = sources.found[-1].origin.endswith("STORAGE_EMULATOR_HOST")
        config["base_url"] = (endpoint if "://" in endpoint else f"http://{endpoint}").rstrip("/")
        if is_emulator:  # Google's own clients send no credentials to an emulator
            config["skip_signature"] = "true"
    auth_type = (sources.get(AUTH_TYPE) or "").upper()
    if auth_type == "UNAUTHENTICATED" or sources.get_flag(NO_AUTH):
        config["skip_signature"] = "true"
    key_file = sources.get(KEY_FILE) if "skip_signature" not in config and auth_type != "COMPUTE_ENGINE" else None
    if key_file is not None:
        credentials["service_account_key"] = read_key_file(key_file, sources.found[-1].origin)
    elif "skip_signature" not in config:
        sources.add("gcs key", "role of the machine", "the machine")
    elif endpoint is not None:
        # obstore asks the machine for a role before every write, even without signatures. This key turns that off.
        config["service_account_key"] = json.dumps({**_NO_KEY, "gcs_base_url": config["base_url"]})
    return ClientSettings("gcs", bucket, tuple(sorted(config.items())), tuple(credentials.items()))
