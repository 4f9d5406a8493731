"""Identifies this process, and finds out whether another process of the same machine has ended.

Heartbeats use this to recognize a dead writer. A process is identified by machine, pid and start time, because the system uses
pids again. Each container of a machine counts pids on its own, so the machine's identity includes the pid namespace.
"""

from __future__ import annotations

import getpass
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process, identified by the machine it runs on, its pid and its start time."""

    #: The host name, for messages.
    host: str
    #: What tells machines and containers apart: host name, boot id and namespace of process numbers.
    machine: str
    pid: int
    #: The start of the process in clock ticks since the machine's boot; empty where the system does not tell.
    started: str


def this_process() -> Process:
    """Return the process that runs this code."""
    host = platform.node()
    machine = "/".join([host, _read("/proc/sys/kernel/random/boot_id"), _pid_namespace()])
    return Process(host, machine, os.getpid(), _start_of("self"))


def describe_user() -> str:
    """Return the user of this process and its host, as `user@host`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # in a container the user may have no name
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def has_ended(process: Process) -> bool:
    """Whether the process is known to have ended. False if it ran on another machine or in another container.

    The processes there cannot be seen from here.
    """
    here = this_process()
    if process.machine != here.machine:
        return False
    try:
        os.kill(process.pid, 0)  # signal 0 only asks whether the process exists
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it exists, and belongs to another user
    started = _start_of(str(process.pid))
    # Without a start time nothing is known: `/proc` may be hidden, or this process may have too many open files to read it.
    return bool(started and process.started) and started != process.started


def _start_of(pid: str) -> str:
    """Return the start time of a process, in clock ticks since the machine's boot; empty where the system has no `/proc`."""
    # The second field is the program's name in brackets and may hold spaces, so fields are counted from its end.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _pid_namespace() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _read(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text().strip()
    return ""
