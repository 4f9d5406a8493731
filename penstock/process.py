"""Which process this is, and whether another process of the same machine has ended.

A process is identified by machine, number (pid) and start, because numbers are used again. Two containers of one machine have
process numbers of their own; so the machine's identity includes the namespace of process numbers.
"""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process: the machine it runs on, its number and when it started."""

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


def has_ended(process: Process) -> bool:
    """Whether the process is known to have ended. False if it runs on another machine or in another container."""
    here = this_process()
    if process.machine != here.machine:
        return False
    try:
        os.kill(process.pid, 0)  # signal 0 only asks whether the process exists
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it exists, and belongs to another user
    return _start_of(str(process.pid)) != process.started


def _start_of(pid: str) -> str:
    """Return the start of a process in clock ticks; empty where the system has no `/proc`."""
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
