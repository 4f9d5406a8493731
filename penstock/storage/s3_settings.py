"""Settings of S3 and of services with its interface, from Hadoop's keys `fs.s3a.*`, the environment, `~/.aws` and options.

As in Hadoop, `fs.s3a.bucket.<bucket>.<key>` wins over `fs.s3a.<key>`. Access key, secret key and session token are always taken
from one place: a token of the environment never goes with keys of the session.

Files are read and written in `object_store.py`, in the same way for all object stores.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from penstock.errors import OptionError, Unsupported
from penstock.options import (
    STORAGE_S3_ACCESS_KEY,
    STORAGE_S3_ANONYMOUS,
    STORAGE_S3_ENDPOINT,
    STORAGE_S3_PATH_STYLE,
    STORAGE_S3_PROFILE,
    STORAGE_S3_REGION,
    STORAGE_S3_SECRET_KEY,
    STORAGE_S3_SESSION_TOKEN,
)
from penstock.storage.object_store_client import ClientSettings
from penstock.storage.settings import Setting, Sources, read_ini

ENDPOINT = Setting(
    "s3 endpoint", ("fs.s3a.endpoint",), ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), ("endpoint_url",), STORAGE_S3_ENDPOINT
)
REGION = Setting("s3 region", ("fs.s3a.endpoint.region",), ("AWS_REGION", "AWS_DEFAULT_REGION"), ("region",), STORAGE_S3_REGION)
PATH_STYLE = Setting("s3 path style", ("fs.s3a.path.style.access",), option=STORAGE_S3_PATH_STYLE)
SSL = Setting("s3 ssl", ("fs.s3a.connection.ssl.enabled",))
PROVIDERS = Setting("s3 credentials provider", ("fs.s3a.aws.credentials.provider",))
PROFILE = Setting("s3 profile", ("fs.s3a.auth.profile.name",), ("AWS_PROFILE",), option=STORAGE_S3_PROFILE)
ANONYMOUS = Setting("s3 anonymous", option=STORAGE_S3_ANONYMOUS)
ACCESS_KEY = Setting(
    "s3 access key",
    ("fs.s3a.access.key",),
    ("AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY"),
    ("aws_access_key_id",),
    STORAGE_S3_ACCESS_KEY,
    secret=True,
)
SECRET_KEY = Setting(
    "s3 secret key",
    ("fs.s3a.secret.key",),
    ("AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY"),
    ("aws_secret_access_key",),
    STORAGE_S3_SECRET_KEY,
    secret=True,
)
SESSION_TOKEN = Setting(
    "s3 session token",
    ("fs.s3a.session.token",),
    ("AWS_SESSION_TOKEN",),
    ("aws_session_token",),
    STORAGE_S3_SESSION_TOKEN,
    secret=True,
)

#: The place of a region that no setting names.
DEFAULT = "the default"
_ANYWHERE = "anywhere"
_AMBIENT = "ambient"
#: The last word of a provider's class name, in lower case → where the keys come from.
_PROVIDER_KINDS = {
    "anonymousawscredentialsprovider": "anonymous",
    "anonymouscredentialsprovider": "anonymous",
    "simpleawscredentialsprovider": "hadoop",
    "temporaryawscredentialsprovider": "hadoop",
    "staticcredentialsprovider": "hadoop",
    "environmentvariablecredentialsprovider": "environment",
    "systempropertycredentialsprovider": _AMBIENT,
    "profilecredentialsprovider": "profile",
    "profileawscredentialsprovider": "profile",
    "iaminstancecredentialsprovider": _AMBIENT,
    "instanceprofilecredentialsprovider": _AMBIENT,
    "containercredentialsprovider": _AMBIENT,
    "ec2containercredentialsproviderwrapper": _AMBIENT,
    "webidentitytokencredentialsprovider": _AMBIENT,
    "webidentitytokenfilecredentialsprovider": _AMBIENT,
    "defaultcredentialsprovider": _ANYWHERE,
    "defaultawscredentialsproviderchain": _ANYWHERE,
}


#: Keys of a profile that say how to get temporary keys.
_PROFILE_WAYS = ("role_arn", "sso_session", "sso_start_url", "credential_process", "web_identity_token_file")


def find_s3_settings(bucket: str, sources: Sources) -> ClientSettings:
    """Return the settings of the client for a bucket, as found in `sources`, the places where settings are looked up.

    Raises:
        OptionError: a setting has a wrong value, or a secret key is missing.
        Unsupported: a credentials provider is not known.
    """
    sources.hadoop = _with_bucket_settings(bucket, sources.hadoop)
    sources.site = _with_bucket_settings(bucket, sources.site)
    _load_profile(sources)
    config = {**_find_endpoint(bucket, sources)}
    credentials = _find_credentials(sources)
    if credentials is None:
        config["skip_signature"] = "true"
    return ClientSettings(
        kind="s3",
        bucket=bucket,
        config=tuple(sorted(config.items())),
        credentials=tuple((credentials or {}).items()),
        found=tuple(sources.found),
    )


def _with_bucket_settings(bucket: str, hadoop: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's settings, in which the values of `fs.s3a.bucket.<bucket>.<key>` replace those of `fs.s3a.<key>`."""
    prefix = f"fs.s3a.bucket.{bucket}."
    merged = dict(hadoop)
    for key, value in hadoop.items():
        if key.startswith(prefix):
            merged[f"fs.s3a.{key.removeprefix(prefix)}"] = value
    return merged


def _load_profile(sources: Sources) -> None:
    """Read the profile from the files of AWS (`~/.aws/credentials` and `~/.aws/config`), and store it in `sources.profile`.

    If no setting names a profile, it is the profile `default`.

    Raises:
        OptionError: the profile that a setting names does not exist.
    """
    named = sources.get(PROFILE)
    profile = named or "default"
    home = sources.environment.get("HOME") or os.path.expanduser("~")
    credentials_file = sources.environment.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(home, ".aws", "credentials")
    config_file = sources.environment.get("AWS_CONFIG_FILE") or os.path.join(home, ".aws", "config")
    in_config = read_ini(config_file)
    values = {
        **in_config.get("default" if profile == "default" else f"profile {profile}", {}),
        **read_ini(credentials_file).get(profile, {}),
    }
    if named is not None and not values:
        raise OptionError(f"{sources.found[-1]}: no such profile in {credentials_file} or {config_file}")
    sources.profile = values
    sources.profile_origin = f"profile '{profile}' in the files of AWS"


def _find_endpoint(bucket: str, sources: Sources) -> dict[str, str]:
    """Return endpoint, region, and whether the bucket is part of the host name, as a dict of obstore's settings."""
    config: dict[str, str] = {}
    endpoint = sources.get(ENDPOINT)
    uses_ssl = sources.get_flag(SSL) is not False
    region = sources.get(REGION)
    path_style = sources.get_flag(PATH_STYLE)
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"{'https' if uses_ssl else 'http'}://{endpoint}"
    host = (urlsplit(endpoint).hostname or "") if endpoint else ""
    if endpoint is not None and not host:
        raise OptionError(f"{sources.found[0]}: expected an address such as https://host:port")
    if host.endswith(".amazonaws.com"):
        # Amazon's own addresses follow from the region. A regional address names it: s3.eu-west-1.amazonaws.com.
        parts = host.removesuffix(".amazonaws.com").split(".")
        region = region or (parts[-1] if len(parts) > 1 else None)
    elif endpoint is not None:
        config["endpoint"] = endpoint.rstrip("/")
        if path_style is False and not _is_address(host):
            config["virtual_hosted_style_request"] = "true"
            config["endpoint"] = config["endpoint"].replace("://", f"://{bucket}.", 1)
    if region is None:
        region = "us-east-1"
        sources.add(REGION.name, region, DEFAULT)
    config["region"] = region
    return config


def _is_address(host: str) -> bool:
    """Whether a host is `localhost` or an IP address. The bucket is then in the path of a request, not in the host name."""
    return host == "localhost" or ":" in host or host.replace(".", "").isdigit()


def _find_credentials(sources: Sources) -> dict[str, str] | None:
    """Return credentials by obstore's names; None for anonymous access.

    The dict is empty if no place has keys. Then the client of each process uses the role of its machine, container or service.
    """
    if sources.get_flag(ANONYMOUS):
        return None
    kinds = _provider_kinds(sources)
    for kind in kinds:
        if kind == "anonymous":
            sources.add(ANONYMOUS.name, "true", "the setting fs.s3a.aws.credentials.provider")
            return None
        keys = _keys_of_one_place(sources, kind)
        if keys:
            return keys
    if not {_ANYWHERE, "profile"}.isdisjoint(kinds):
        _check_profile(sources)
    sources.add("s3 credentials", "role of the machine, container or service", "the machine")
    return {}


def _check_profile(sources: Sources) -> None:
    """Raise Unsupported if the profile gets its keys in a way that Penstock does not have.

    Called if no place has keys. The role of the machine must not be taken for that of the profile.
    """
    for key in _PROFILE_WAYS:
        if key in sources.profile:
            name = sources.profile_origin
            raise Unsupported(
                f"the {name} gets its keys by {key}, which Penstock does not do; put the keys into the environment with: "
                'eval "$(aws configure export-credentials --format env)" (with --profile NAME), or name another profile with '
                f"{PROFILE.places}"
            )


def _provider_kinds(sources: Sources) -> list[str]:
    """Return the kinds of places in which keys are looked up, in order, from Hadoop's list of provider classes.

    Without that list, keys are looked up in all places.

    Raises:
        Unsupported: a provider class is not known.
    """
    names = sources.get(PROVIDERS)
    if names is None:
        return [_ANYWHERE]
    kinds = []
    for name in names.replace("\n", ",").split(","):
        if not name.strip():
            continue
        kind = _PROVIDER_KINDS.get(name.strip().rpartition(".")[2].lower())
        if kind is None:
            raise Unsupported(
                f"{sources.found[-1]}: Penstock does not know the provider {name.strip()}; name one of Simple-, Temporary-, "
                "Anonymous-, EnvironmentVariable-, Profile-, IAMInstance- or WebIdentityTokenCredentialsProvider, or leave it out"
            )
        kinds.append(kind)
    return kinds


def _keys_of_one_place(sources: Sources, kind: str) -> dict[str, str]:
    """Return access key, secret key and session token, by obstore's names, from the first place that has an access key.

    The dict is empty if no place has one.

    Args:
        kind: the kind of place to look in (an item of `_provider_kinds`), or the constant for all places.

    Raises:
        OptionError: the place has an access key and no secret key.
    """
    if kind == _AMBIENT:
        return {}
    for place in ("hadoop", "environment", "profile", "option"):
        if kind not in (_ANYWHERE, place):
            continue
        access_key = sources.get(_only(ACCESS_KEY, place))
        if access_key is None:
            continue
        origin = sources.found[-1]
        secret_key = sources.get(_only(SECRET_KEY, place))
        if secret_key is None:
            raise OptionError(f"{origin.name} is set by {origin.origin}, but its secret key is not; set both in the same place")
        keys = {"access_key_id": access_key, "secret_access_key": secret_key}
        token = sources.get(_only(SESSION_TOKEN, place))
        if token is not None:
            keys["token"] = token
        return keys
    return {}


def _only(setting: Setting, place: str) -> Setting:
    """Return a copy of a setting that is looked up in one place only: hadoop, environment, profile or option."""
    return replace(
        setting,
        hadoop=setting.hadoop if place == "hadoop" else (),
        environment=setting.environment if place == "environment" else (),
        profile=setting.profile if place == "profile" else (),
        option=setting.option if place == "option" else None,
    )
