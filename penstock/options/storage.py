"""Options of tables on object stores and HDFS.

They are the last place where Penstock looks for a setting: the session's Hadoop settings (`fs.s3a.*`, `fs.gs.*`, `fs.azure.*`,
`dfs.*`) come first, then the environment and files of the cloud. `penstock/storage/settings.py` applies this order.
"""

from __future__ import annotations

from typing import Final

from penstock.options.option import Option, boolean, positive, word

#: The prefix of all options of this module.
STORAGE_OPTIONS: Final = "penstock.storage."

STORAGE_TIMEOUT_MS: Final = Option(
    "penstock.storage.timeout.ms",
    positive,
    20_000,
    "An object store that sends nothing for this many milliseconds counts as failed, and the request is repeated.",
)
STORAGE_RETRY_MS: Final = Option(
    "penstock.storage.retry.ms",
    positive,
    120_000,
    "A request to an object store is repeated for at most this many milliseconds, with growing random pauses. Keep it below five "
    "minutes: a signature is not valid for longer.",
)
STORAGE_S3_ENDPOINT: Final[Option[str | None]] = Option(
    "penstock.storage.s3.endpoint",
    word,
    None,
    "Address of an S3 service that is not Amazon's, such as `https://minio.example:9000`. Used if neither `fs.s3a.endpoint` nor "
    "`AWS_ENDPOINT_URL_S3` nor `AWS_ENDPOINT_URL` is set.",
)
STORAGE_S3_REGION: Final[Option[str | None]] = Option(
    "penstock.storage.s3.region",
    word,
    None,
    "Region of the bucket. Used if neither `fs.s3a.endpoint.region` nor `AWS_REGION` nor the profile has one.",
)
STORAGE_S3_PATH_STYLE: Final[Option[bool | None]] = Option(
    "penstock.storage.s3.path.style",
    boolean,
    None,
    "Whether the bucket is in the path of an address (`true`) or in its host name (`false`). If not set, in the path.",
)
STORAGE_S3_ACCESS_KEY: Final[Option[str | None]] = Option(
    "penstock.storage.s3.access.key",
    word,
    None,
    "Access key of S3. Used if the session, the environment and the profile have none.",
    secret=True,
)
STORAGE_S3_SECRET_KEY: Final[Option[str | None]] = Option(
    "penstock.storage.s3.secret.key", word, None, "Secret key of S3, for `penstock.storage.s3.access.key`.", secret=True
)
STORAGE_S3_SESSION_TOKEN: Final[Option[str | None]] = Option(
    "penstock.storage.s3.session.token", word, None, "Session token of temporary keys of S3.", secret=True
)
STORAGE_S3_PROFILE: Final[Option[str | None]] = Option(
    "penstock.storage.s3.profile",
    word,
    None,
    "Profile in the files `credentials` and `config` of AWS. Used if `AWS_PROFILE` is not set. If neither is set: `default`.",
)
STORAGE_S3_ANONYMOUS: Final[Option[bool | None]] = Option(
    "penstock.storage.s3.anonymous", boolean, None, "Send requests without signature, for public buckets."
)
STORAGE_GCS_ENDPOINT: Final[Option[str | None]] = Option(
    "penstock.storage.gcs.endpoint",
    word,
    None,
    "Address of a Google Cloud Storage service that is not Google's, such as an emulator.",
)
STORAGE_GCS_KEY_FILE: Final[Option[str | None]] = Option(
    "penstock.storage.gcs.key.file",
    word,
    None,
    "JSON file with the key of a service account. Used if neither the session nor `GOOGLE_APPLICATION_CREDENTIALS` names one.",
)
STORAGE_GCS_ANONYMOUS: Final[Option[bool | None]] = Option(
    "penstock.storage.gcs.anonymous",
    boolean,
    None,
    "Send requests to Google Cloud Storage without credentials, for public buckets.",
)
STORAGE_AZURE_ACCOUNT: Final[Option[str | None]] = Option(
    "penstock.storage.azure.account",
    word,
    None,
    "Storage account of Azure, for paths that do not name one, such as `az://container/folder`.",
)
STORAGE_AZURE_ENDPOINT: Final[Option[str | None]] = Option(
    "penstock.storage.azure.endpoint", word, None, "Address of a Blob service that is not Azure's, such as an emulator."
)
STORAGE_AZURE_ACCOUNT_KEY: Final[Option[str | None]] = Option(
    "penstock.storage.azure.account.key", word, None, "Key of the storage account of Azure.", secret=True
)
STORAGE_AZURE_SAS_TOKEN: Final[Option[str | None]] = Option(
    "penstock.storage.azure.sas.token", word, None, "Shared access signature of Azure.", secret=True
)
STORAGE_AZURE_CLIENT_ID: Final[Option[str | None]] = Option(
    "penstock.storage.azure.client.id", word, None, "Id of a service principal of Azure."
)
STORAGE_AZURE_CLIENT_SECRET: Final[Option[str | None]] = Option(
    "penstock.storage.azure.client.secret", word, None, "Secret of the service principal.", secret=True
)
STORAGE_AZURE_TENANT_ID: Final[Option[str | None]] = Option(
    "penstock.storage.azure.tenant.id", word, None, "Tenant of the service principal."
)
