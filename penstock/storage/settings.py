"""Finds the settings of a remote storage, in three places in a fixed order.

The places are: the Hadoop settings (`fs.s3a.*`, `fs.gs.*`, `fs.azure.*`, `dfs.*`) of the session, then of `core-site.xml`; the
environment and files of the cloud (`AWS_*`, `~/.aws`, `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_*`); and the options
`penstock.storage.*`. The first place that has the setting wins. `Found` records the place, for messages and for `explain`.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import OptionError
from penstock.options import Option
from penstock.options.option import to_raw
from penstock.storage.core_site import read_core_site

MASK = "***"
#: Spark takes Hadoop's settings with this prefix.
_SPARK_PREFIX = "spark.hadoop."


@dataclass(frozen=True)
class Setting:
    """A setting of a storage, and its name in each place.

    Attributes:
        name: the name that `Found` and messages use, such as "s3 endpoint".
        hadoop: keys of Hadoop's settings, the most specific first.
        environment: environment variables.
        profile: keys of a profile in the files of AWS.
        option: Penstock's option.
        secret: whether the value must not be shown.
    """

    name: str
    hadoop: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    option: Option[Any] | None = None
    secret: bool = False

    @property
    def places(self) -> str:
        """Names under which a user can set the setting, for messages: one per place (Hadoop, environment, option)."""
        keys = [*self.hadoop[-1:], *self.environment[:1]]
        if self.option is not None:
            keys.append(self.option.key)
        return ", ".join(keys)


@dataclass(frozen=True)
class Found:
    """A setting that was found: its name, its value (masked if it is a secret), and the place as a text for messages."""

    name: str
    value: str
    origin: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value} (from {self.origin})"


@dataclass
class Sources:
    """The places where settings are looked up for one path, and the settings that were found there so far."""

    hadoop: Mapping[str, str]
    options: Mapping[str, str]
    environment: Mapping[str, str]
    #: Hadoop's settings in `core-site.xml`, and the path of that file.
    site: Mapping[str, str] = field(default_factory=dict)
    site_path: str = ""
    profile: Mapping[str, str] = field(default_factory=dict)
    profile_origin: str = ""
    found: list[Found] = field(default_factory=list)

    @classmethod
    def of(cls, settings: Mapping[str, str] | None, environment: Mapping[str, str] | None = None) -> Sources:
        """Return the sources for the settings of a caller.

        Args:
            settings: Hadoop keys, with or without the prefix `spark.hadoop.`, and options `penstock.storage.*`.
            environment: environment variables; None: those of this process.
        """
        hadoop: dict[str, str] = {}
        options: dict[str, str] = {}
        for key, value in (settings or {}).items():
            if key.startswith("penstock."):
                options[key] = value
            else:
                hadoop[key.removeprefix(_SPARK_PREFIX)] = value
        environment = os.environ if environment is None else environment
        return cls(hadoop, options, environment, *read_core_site(environment))

    def get(self, setting: Setting) -> str | None:
        """Return the value of a setting from the first place that has it, and record it in `found`; None if no place has it."""
        return self._first(
            setting,
            [
                *((self.hadoop, key, f"the setting {key}") for key in setting.hadoop),
                *((self.site, key, f"{key} in {self.site_path}") for key in setting.hadoop),
                *((self.environment, key, f"the environment variable {key}") for key in setting.environment),
                *((self.profile, key, f"{key} of {self.profile_origin}") for key in setting.profile),
                *self._option_place(setting),
            ],
        )

    def get_flag(self, setting: Setting) -> bool | None:
        """Return the value of a setting that is `true` or `false`; None if no place has it.

        Raises:
            OptionError: the setting has another value.
        """
        text = self.get(setting)
        if text is None:
            return None
        if text.lower() not in ("true", "false"):
            raise OptionError(f"{self.found[-1]}: expected true or false")
        return text.lower() == "true"

    def get_number(self, option: Option[int]) -> int:
        """Return the value of one of Penstock's own options with a whole number; its default if it is not set."""
        raw = self.options.get(option.key)
        return option.default if raw is None else option.read(raw)

    def add(self, name: str, value: str, origin: str) -> None:
        """Add a value that does not come from a `Setting`, such as a default, to the settings that were found.

        Args:
            name: the name of the setting, for messages.
            origin: where the value comes from, in words.
        """
        self.found.append(Found(name, value, origin))

    def _first(self, setting: Setting, places: Iterable[tuple[Mapping[str, str], str, str]]) -> str | None:
        for values, key, origin in places:
            value = (values.get(key) or "").strip()
            if value:
                self.found.append(Found(setting.name, MASK if setting.secret else value, origin))
                return value
        return None

    def _option_place(self, setting: Setting) -> Sequence[tuple[Mapping[str, str], str, str]]:
        """Return Penstock's option for the setting as a list of one place to look up: (values, key, description of the place).

        The list is empty if the option is not set. The option is parsed, so that a wrong value raises OptionError.
        """
        option = setting.option
        if option is None or option.key not in self.options:
            return ()
        return [({option.key: to_raw(option.read(self.options[option.key]))}, option.key, f"the option {option.key}")]


def read_ini(path: str) -> Mapping[str, Mapping[str, str]]:
    """Return the sections of an INI file such as `~/.aws/credentials`; an empty map if the file does not exist.

    Raises:
        OptionError: the file cannot be read or parsed. The message quotes nothing from the file, which holds secrets.
    """
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except FileNotFoundError:
        return {}
    except (OSError, configparser.Error, UnicodeDecodeError) as e:
        reason = type(e).__name__
    else:
        return {name: dict(parser.items(name)) for name in parser.sections()}
    raise OptionError(f"the file {path} cannot be read ({reason}); repair it, or set the keys in the session's settings")


def read_key_file(path: str, origin: str) -> str:
    """Return the content of a file with credentials.

    Args:
        origin: the place that names the file, for the error.

    Raises:
        OptionError: the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as e:
        reason = type(e).__name__
    raise OptionError(f"the file {path}, named by {origin}, cannot be read ({reason}); correct the path")


def explain_found(found: Sequence[Found]) -> str:
    """Return one line per setting: its value, masked if secret, and where it was found."""
    return "\n".join(str(each) for each in found)
