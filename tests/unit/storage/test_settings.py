"""Where settings of object stores and HDFS come from, and in which order; what is shown of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.errors import OptionError, Unsupported
from penstock.storage import explain_storage, open_storage
from penstock.storage.azure_settings import find_azure_settings
from penstock.storage.gcs_settings import find_gcs_settings
from penstock.storage.hdfs import HdfsStorage
from penstock.storage.object_store import ObjectStorage
from penstock.storage.object_store_client import ClientSettings
from penstock.storage.s3_settings import find_s3_settings
from penstock.storage.settings import Sources

CANARY = "canary0secret"
NOWHERE = {"HOME": "/nonexistent"}


def s3(settings: dict[str, str] | None = None, environment: dict[str, str] | None = None, bucket: str = "lake") -> ClientSettings:
    return find_s3_settings(bucket, Sources.of(settings, {**NOWHERE, **(environment or {})}))


HADOOP_KEYS = {"spark.hadoop.fs.s3a.access.key": "hadoop", "spark.hadoop.fs.s3a.secret.key": CANARY}
ENVIRONMENT_KEYS = {"AWS_ACCESS_KEY_ID": "environment", "AWS_SECRET_ACCESS_KEY": CANARY}
OPTION_KEYS = {"penstock.storage.s3.access.key": "option", "penstock.storage.s3.secret.key": CANARY}


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    """The region of buckets that are opened here, so that Amazon is not asked for it."""
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        f"[default]\naws_access_key_id = profile\naws_secret_access_key = {CANARY}\n"
        f"[team]\naws_access_key_id = team\naws_secret_access_key = {CANARY}\naws_session_token = t\n"
    )
    (tmp_path / ".aws" / "config").write_text("[default]\nregion = eu-west-3\n[profile team]\nregion = eu-central-1\n")
    return tmp_path


# --- S3


@pytest.mark.parametrize(
    ("settings", "environment", "files", "winner"),
    [
        ({**HADOOP_KEYS, **OPTION_KEYS}, ENVIRONMENT_KEYS, True, "hadoop"),
        (OPTION_KEYS, ENVIRONMENT_KEYS, True, "environment"),
        (OPTION_KEYS, {}, True, "profile"),
        (OPTION_KEYS, {}, False, "option"),
    ],
)
def test_the_session_comes_first_then_the_environment_then_files_then_options(
    home: Path, settings: dict[str, str], environment: dict[str, str], files: bool, winner: str
) -> None:
    place = {"HOME": str(home)} if files else NOWHERE
    assert dict(s3(settings, {**environment, **place}).credentials)["access_key_id"] == winner


def test_the_settings_of_a_bucket_win_over_the_general_ones() -> None:
    settings = {
        "fs.s3a.endpoint": "http://general:1",
        "fs.s3a.bucket.lake.endpoint": "http://own:2",
        "fs.s3a.bucket.other.endpoint": "http://other:3",
        "fs.s3a.access.key": "general",
        "fs.s3a.secret.key": "general",
        "fs.s3a.bucket.lake.access.key": "own",
        "fs.s3a.bucket.lake.secret.key": CANARY,
    }
    found = s3(settings)
    assert dict(found.config)["endpoint"] == "http://own:2"
    assert dict(found.credentials) == {"access_key_id": "own", "secret_access_key": CANARY}


def write_core_site(folder: Path, **settings: str) -> None:
    folder.mkdir(parents=True)
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (folder / "core-site.xml").write_text(f"<?xml version='1.0'?><configuration>{properties}</configuration>")


SITE = {
    "fs.s3a.access.key": "site",
    "fs.s3a.secret.key": CANARY,
    "fs.s3a.endpoint": "http://${lake.host}:${env.LAKE_PORT}",
    "fs.s3a.bucket.lake.endpoint.region": "eu-north-1",
    "lake.host": "minio",
}


@pytest.mark.parametrize(
    ("variable", "below"),
    [("HADOOP_CONF_DIR", "."), ("HADOOP_HOME", "etc/hadoop"), ("SPARK_CONF_DIR", "."), ("SPARK_HOME", "conf")],
)
def test_settings_of_core_site_come_after_those_of_the_session(tmp_path: Path, variable: str, below: str) -> None:
    write_core_site(tmp_path / "hadoop" / below, **SITE)
    place = {variable: str(tmp_path / "hadoop"), "LAKE_PORT": "9000", **ENVIRONMENT_KEYS}
    found = s3({}, place)
    assert dict(found.credentials) == {"access_key_id": "site", "secret_access_key": CANARY}
    assert dict(found.config) == {"endpoint": "http://minio:9000", "region": "eu-north-1"}
    assert "core-site.xml" in found.origin("s3 access key")
    assert CANARY not in repr(found.found)
    assert dict(s3(HADOOP_KEYS, place).credentials)["access_key_id"] == "hadoop"


def test_a_core_site_that_is_no_xml_is_named_and_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(f"fs.s3a.secret.key={CANARY}")
    with pytest.raises(OptionError, match="core-site.xml cannot be read") as caught:
        s3({}, {"HADOOP_CONF_DIR": str(tmp_path)})
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("way", ["role_arn = arn:aws:iam::1:role/r", "sso_session = corp", "credential_process = /bin/keys"])
@pytest.mark.parametrize("profile", ["default", "corp"])
def test_a_profile_whose_keys_come_another_way_is_not_the_role_of_the_machine(tmp_path: Path, way: str, profile: str) -> None:
    (tmp_path / ".aws").mkdir()
    section = "default" if profile == "default" else f"profile {profile}"
    (tmp_path / ".aws" / "config").write_text(f"[{section}]\n{way}\n")
    place = {"HOME": str(tmp_path)} if profile == "default" else {"HOME": str(tmp_path), "AWS_PROFILE": profile}
    with pytest.raises(Unsupported, match=f"profile '{profile}'.*{way.split()[0]}.*aws configure export-credentials"):
        s3({}, place)
    assert dict(s3({}, {**place, **ENVIRONMENT_KEYS}).credentials)["access_key_id"] == "environment"
    role = {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"}
    assert s3(role, place).credentials == ()


def test_a_token_goes_with_the_keys_of_its_own_place() -> None:
    environment = {**ENVIRONMENT_KEYS, "AWS_SESSION_TOKEN": "token"}
    assert "token" not in dict(s3(HADOOP_KEYS, environment).credentials)
    assert dict(s3({}, environment).credentials)["token"] == "token"


def test_a_profile_is_found_by_name(home: Path) -> None:
    found = s3({}, {"HOME": str(home), "AWS_PROFILE": "team"})
    assert dict(found.credentials) == {"access_key_id": "team", "secret_access_key": CANARY, "token": "t"}
    assert dict(found.config)["region"] == "eu-central-1"
    with pytest.raises(OptionError, match="AWS_PROFILE.*no such profile"):
        s3({}, {"HOME": str(home), "AWS_PROFILE": "nobodys"})


@pytest.mark.parametrize(
    ("settings", "endpoint", "region"),
    [
        ({"fs.s3a.endpoint": "minio:9000", "fs.s3a.connection.ssl.enabled": "false"}, "http://minio:9000", "us-east-1"),
        ({"fs.s3a.endpoint": "minio:9000"}, "https://minio:9000", "us-east-1"),
        ({"fs.s3a.endpoint": "http://minio:9000/"}, "http://minio:9000", "us-east-1"),
        ({"fs.s3a.endpoint": "s3.amazonaws.com"}, None, "us-east-1"),
        ({"fs.s3a.endpoint": "s3.eu-west-1.amazonaws.com"}, None, "eu-west-1"),
        ({"fs.s3a.endpoint.region": "eu-west-2"}, None, "eu-west-2"),
        ({"penstock.storage.s3.endpoint": "http://a:1", "penstock.storage.s3.region": "x"}, "http://a:1", "x"),
        ({"fs.s3a.endpoint": "https://host", "fs.s3a.path.style.access": "false"}, "https://lake.host", "us-east-1"),
        ({"fs.s3a.endpoint": "https://10.0.0.1", "fs.s3a.path.style.access": "false"}, "https://10.0.0.1", "us-east-1"),
    ],
)
def test_endpoint_and_region_are_found(settings: dict[str, str], endpoint: str | None, region: str) -> None:
    config = dict(s3(settings).config)
    assert config.get("endpoint") == endpoint
    assert config["region"] == region


PROVIDER = "fs.s3a.aws.credentials.provider"
HADOOP = "org.apache.hadoop.fs.s3a."


@pytest.mark.parametrize(
    ("provider", "keys"),
    [
        (HADOOP + "SimpleAWSCredentialsProvider", "hadoop"),
        (HADOOP + "TemporaryAWSCredentialsProvider", "hadoop"),
        ("com.amazonaws.auth.EnvironmentVariableCredentialsProvider", "environment"),
        ("software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider", "environment"),
        (HADOOP + "auth.IAMInstanceCredentialsProvider", None),
        ("com.amazonaws.auth.WebIdentityTokenCredentialsProvider", None),
        (f"{HADOOP}auth.IAMInstanceCredentialsProvider,\n {HADOOP}SimpleAWSCredentialsProvider", "hadoop"),
    ],
)
def test_a_credentials_provider_says_where_keys_are_looked_up(provider: str, keys: str | None) -> None:
    found = s3({**HADOOP_KEYS, PROVIDER: provider}, ENVIRONMENT_KEYS)
    assert dict(found.credentials).get("access_key_id") == keys


def test_requests_are_not_signed_for_an_anonymous_provider() -> None:
    found = s3({**HADOOP_KEYS, PROVIDER: HADOOP + "AnonymousAWSCredentialsProvider"})
    assert (dict(found.config)["skip_signature"], found.credentials) == ("true", ())
    assert dict(s3({"penstock.storage.s3.anonymous": "true"}).config)["skip_signature"] == "true"


def test_an_unknown_credentials_provider_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="com.example.OurProvider.*Simple"):
        s3({PROVIDER: "com.example.OurProvider"})


def test_a_key_without_its_secret_is_refused() -> None:
    with pytest.raises(OptionError, match="fs.s3a.access.key.*secret key is not"):
        s3({"fs.s3a.access.key": "k"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fs.s3a.path.style.access": "maybe"}, "path.style.access.*true or false"),
        ({"penstock.storage.s3.anonymous": "perhaps"}, "penstock.storage.s3.anonymous"),
        ({"fs.s3a.endpoint": "http://"}, "address"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(settings: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        s3(settings)


# --- Google Cloud Storage


def test_the_key_file_of_a_service_account_travels_with_the_storage(tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text(f'{{"private_key": "{CANARY}"}}')
    settings = {"fs.gs.auth.service.account.json.keyfile": str(file)}
    found = find_gcs_settings("lake", Sources.of(settings, {"GOOGLE_APPLICATION_CREDENTIALS": "/other"}))
    assert dict(found.credentials) == {"service_account_key": file.read_text()}
    with pytest.raises(OptionError, match="GOOGLE_APPLICATION_CREDENTIALS.*cannot be read"):
        find_gcs_settings("lake", Sources.of({}, {"GOOGLE_APPLICATION_CREDENTIALS": "/nonexistent"}))


def test_an_emulator_gets_no_credentials() -> None:
    found = find_gcs_settings("lake", Sources.of({}, {"STORAGE_EMULATOR_HOST": "localhost:4443"}))
    config = dict(found.config)
    assert (config["base_url"], config["skip_signature"]) == ("http://localhost:4443", "true")
    assert found.credentials == ()


# --- Azure


ACCOUNT = "lake@acme.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("settings", "environment", "credentials"),
    [
        (
            {"fs.azure.account.key.acme.dfs.core.windows.net": "own", "fs.azure.account.key": "general"},
            {"AZURE_STORAGE_ACCOUNT_KEY": "environment"},
            {"account_key": "own"},
        ),
        ({}, {"AZURE_STORAGE_ACCOUNT_KEY": "environment"}, {"account_key": "environment"}),
        ({"penstock.storage.azure.account.key": "option"}, {}, {"account_key": "option"}),
        ({"fs.azure.sas.fixed.token.acme.dfs.core.windows.net": "?sv=1&sig=x"}, {}, {"sas_key": "sv=1&sig=x"}),
        (
            {
                "fs.azure.account.oauth2.client.id.acme.dfs.core.windows.net": "id",
                "fs.azure.account.oauth2.client.secret.acme.dfs.core.windows.net": "secret",
                "fs.azure.account.oauth2.client.endpoint.acme.dfs.core.windows.net": "https://login.microsoftonline.com/tenant/oauth2/token",
            },
            {},
            {"client_id": "id", "client_secret": "secret", "tenant_id": "tenant"},
        ),
        (
            {},
            {"AZURE_CLIENT_ID": "id", "AZURE_CLIENT_SECRET": "secret", "AZURE_TENANT_ID": "tenant"},
            {"client_id": "id", "client_secret": "secret", "tenant_id": "tenant"},
        ),
        ({}, {}, {}),
    ],
)
def test_credentials_of_azure_are_found(
    settings: dict[str, str], environment: dict[str, str], credentials: dict[str, str]
) -> None:
    found = find_azure_settings(ACCOUNT, Sources.of(settings, environment))
    assert dict(found.credentials) == credentials
    assert (found.bucket, dict(found.config)["account_name"]) == ("lake", "acme")


def test_a_path_without_account_takes_the_account_of_the_environment() -> None:
    found = find_azure_settings("lake", Sources.of({}, {"AZURE_STORAGE_ACCOUNT_NAME": "acme"}))
    assert dict(found.config)["account_name"] == "acme"
    with pytest.raises(OptionError, match="penstock.storage.azure.account"):
        find_azure_settings("lake", Sources.of({}, {}))


# --- opening


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("s3://lake/a/b", "s3://lake/a/b"),
        ("S3A://lake/a//b/", "s3a://lake/a/b"),
        ("s3n://my.dotted.bucket/a", "s3n://my.dotted.bucket/a"),
        ("s3a://lake", "s3a://lake/"),
        ("s3a://lake/a b/c%20d+é", "s3a://lake/a b/c%20d+é"),
        ("gs://lake/a", "gs://lake/a"),
        ("abfss://lake@acme.dfs.core.windows.net/a", "abfss://lake@acme.dfs.core.windows.net/a"),
        ("wasbs://lake@acme.blob.core.windows.net/a", "wasbs://lake@acme.blob.core.windows.net/a"),
        ("hdfs://host:8020/a", "hdfs://host:8020/a"),
        ("/local/a", "/local/a"),
        ("memory://a/b", "/a/b"),
    ],
)
def test_a_path_has_the_uri_that_spark_takes(path: str, uri: str) -> None:
    storage, inside = open_storage(path, {"fs.s3a.access.key": "k", "fs.s3a.secret.key": "s"})
    assert storage.uri(inside) == uri
    assert inside.startswith("/")


@pytest.mark.parametrize("path", ["s3a:///folder", "gs://", "s3a://lake/a/../b"])
def test_a_path_without_bucket_or_with_dots_is_refused(path: str) -> None:
    with pytest.raises(OptionError):
        open_storage(path)


def test_a_path_with_keys_in_it_is_refused_and_not_shown() -> None:
    with pytest.raises(OptionError, match="secret before the '@'") as caught:
        open_storage(f"s3a://key:{CANARY}@lake/table")
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "module", "extra"),
    [("s3a://lake/a", "obstore", "s3"), ("gs://lake/a", "obstore", "gcs"), ("abfss://a@b.dfs/c", "obstore", "azure")],
)
def test_without_the_extra_the_error_says_which_to_install(
    path: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unsupported, match=rf"pip install 'penstock\[{extra}\]'"):
        open_storage(path)


def test_without_the_extra_for_hdfs_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(Unsupported, match=r"pip install 'penstock\[hdfs\]'"):
        open_storage("hdfs://host:8020/a")


def test_what_was_found_is_explained_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    settings = {**HADOOP_KEYS, "spark.hadoop.fs.s3a.endpoint": "http://minio:9000"}
    text = explain_storage("s3a://lake/a", settings)
    assert "s3 endpoint = http://minio:9000 (from the setting fs.s3a.endpoint)" in text
    assert "s3 region = eu-west-1 (from the environment variable AWS_REGION)" in text
    assert "s3 secret key = *** (from the setting fs.s3a.secret.key)" in text
    assert CANARY not in text
    assert explain_storage("/a") == "LocalStorage: /a"


def test_a_storage_shows_no_secret_and_equal_settings_make_equal_storages() -> None:
    storage, _ = open_storage("s3a://lake/a", HADOOP_KEYS)
    assert isinstance(storage, ObjectStorage)
    assert CANARY in storage.settings.secrets
    assert CANARY not in repr(storage) + repr(storage.settings)
    assert storage == open_storage("s3a://lake/b", HADOOP_KEYS)[0]
    assert storage != open_storage("s3a://other/b", HADOOP_KEYS)[0]


def test_settings_of_hdfs_leave_other_settings_out() -> None:
    settings = {"dfs.nameservices": "lake", "dfs.ha.namenodes.lake": "a,b", "fs.s3a.secret.key": CANARY, "hive.x": "y"}
    storage, _ = open_storage("hdfs://lake/a", settings)
    assert isinstance(storage, HdfsStorage)
    assert dict(storage.config) == {"dfs.nameservices": "lake", "dfs.ha.namenodes.lake": "a,b"}
