"""The registries of users' commit callbacks and validators: `@penstock.commit_callback` and `@penstock.validator`.

`CALLBACKS` names the commit callbacks of Penstock itself. Callbacks and validators run on the driver only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.errors import OptionError
from penstock.registered.registry import F, Kind, Registered, Registry

#: Callbacks of Penstock: value in `penstock.commit.callbacks` → function that makes the sender from the options. No function of a
#: user can take one of these names. `hooks/callbacks.py` imports a module when the options name its callback.
CALLBACKS: Final = {
    "http": "penstock.hooks.http_callback:make_http_sender",
    "kafka": "penstock.hooks.kafka_callback:make_kafka_sender",
}

COMMIT_CALLBACKS = Registry(Kind.COMMIT_CALLBACK, taken=tuple(CALLBACKS))
VALIDATORS = Registry(Kind.VALIDATOR)


def commit_callback(name: str) -> Callable[[F], F]:
    """Register a function, or a class whose objects can be called, that is called after each commit of a write.

    The function is called with a `penstock.CommitNotice`, on the driver. An object of a class is made for each commit, without
    arguments. The commit stays published, whatever the function raises: an error is a warning and a line in `Commit.follow_ups`.

    Args:
        name: the name by which `penstock.commit.callbacks` or `hoodie.write.commit.callback.class` chooses the function.

    Raises:
        OptionError: the name is not valid, or is reserved for Hudi or Penstock.

    Example:
        >>> @penstock.commit_callback("remember")
        ... def remember(notice):
        ...     seen.append((notice.table_name, notice.operation, notice.rows_updated))
        >>> seen = []
        >>> commit = table.upsert(trips, {"penstock.commit.callbacks": "remember"})
        >>> seen
        [('trips', 'upsert', 3)]
    """
    return COMMIT_CALLBACKS.decorator(Kind.COMMIT_CALLBACK, name)


def validator(name: str) -> Callable[[F], F]:
    """Register a function, or a class whose objects can be called, that may refuse a commit before it is published.

    The function is called with a `penstock.TablePreview`: the table before and after the commit, as DataFrames. It returns None
    or True to accept the commit; False, or a text that says why, refuses it, and so does an error. A write that is refused is
    undone, and raises `ValidationFailed`.

    Args:
        name: the name by which `hoodie.precommit.validators` chooses the function.

    Raises:
        OptionError: the name is not valid, or is reserved for Hudi or Penstock.

    Example:
        >>> @penstock.validator("no_free_trips")
        ... def no_free_trips(preview):
        ...     free = preview.after.where("fare <= 0").count()
        ...     return f"{free} trips would be free" if free else None
        >>> table.upsert(trips, {"hoodie.precommit.validators": "no_free_trips"}).rows_updated
        3
    """
    return VALIDATORS.decorator(Kind.VALIDATOR, name)


def find_commit_callback(name: str) -> Callable[..., Any]:
    """Return the commit callback of this name. If it is a class, return a new object of the class.

    Raises:
        OptionError: no callback has this name, its package cannot be imported, its class needs arguments, or the object cannot be
            called.
    """
    return _find_function(COMMIT_CALLBACKS, Kind.COMMIT_CALLBACK, name)


def find_validator(name: str) -> Callable[..., Any]:
    """Return the validator of this name. If it is a class, return a new object of the class.

    Raises:
        OptionError: no validator has this name, its package cannot be imported, its class needs arguments, or the object cannot
            be called.
    """
    return _find_function(VALIDATORS, Kind.VALIDATOR, name)


def _find_function(registry: Registry, kind: Kind, name: str) -> Callable[..., Any]:
    """Return the function of this name, or a new object if it is a class. Raise OptionError if there is none to call."""
    registered = registry.find(name)
    if registered is None:
        raise OptionError(
            f"no {kind.noun} is registered as {name!r}: register a function with @penstock.{kind.value}({name!r}), in this "
            "program or as an entry point of an installed package; no class is loaded because an option names it"
        )
    function = _make_object(registered) if isinstance(registered.function, type) else registered.function
    if not callable(function):
        raise OptionError(f"{kind.noun} {name!r} is a {type(function).__name__}, which cannot be called: define __call__")
    return function


def _make_object(registered: Registered) -> Any:
    """Return a new object of a registered class. Raise OptionError if its constructor fails."""
    try:
        return registered.function()
    except Exception as e:  # code of the user may raise anything
        raise OptionError(
            f"{registered.kind.noun} {registered.name!r}: {registered.function.__name__}() failed with {type(e).__name__}: {e}"
        ) from e
