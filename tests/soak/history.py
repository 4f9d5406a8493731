"""Checks a recorded history of reads and writes for snapshot isolation, in the manner of Elle.

Every write appends its number, its *token*, to the lists of some keys. So each list shows the order of the writes of its key, and a read shows which
writes it has seen. A history is right if every acknowledged token is there once, no failed one is, no read sees half a write, and one order
explains all reads and writes: an order in which a write that was acknowledged before another operation began comes before it.

The last part is the characterisation of snapshot isolation by dependencies. An operation depends on another if it comes after it in real time, appends after
it (ww), or has read what it appended (wr). A read precedes the first write that it has not seen (rw). The history is right if
no cycle consists of dependencies, each followed by at most one rw.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"
#: The lists that one scan of the table found, by key. A list of lists: a key may be there twice, which is an anomaly.
Scan = Mapping[str, Sequence[Sequence[int]]]


@dataclass(frozen=True)
class Append:
    """One write: it appends a token to the lists of some keys. Times are those of one clock for all processes."""

    token: int
    keys: tuple[str, ...]
    began: float
    ended: float = math.inf
    #: `ok`: acknowledged. `failed`: it raised an error that says that nothing was written. `unknown`: its process died.
    outcome: str = UNKNOWN


@dataclass(frozen=True)
class Read:
    """One query over all keys. A query that reads the table twice has two scans."""

    began: float
    ended: float
    scans: tuple[Scan, ...]


@dataclass(frozen=True)
class Anomaly:
    """What is wrong in a history."""

    kind: str
    text: str


@dataclass
class History:
    """All operations of a run."""

    appends: dict[int, Append] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)

    @classmethod
    def of(cls, appends: Iterable[Append], reads: Iterable[Read]) -> History:
        """Return the history of some operations."""
        return cls({append.token: append for append in appends}, sorted(reads, key=lambda read: read.began))

    @classmethod
    def load(cls, files: Iterable[Path]) -> History:
        """Read the ledgers of all processes. A write without an outcome was cut off, and its outcome is not known."""
        history = cls()
        for file in files:
            for line in file.read_text().splitlines():
                history._add(json.loads(line))
        history.reads.sort(key=lambda read: read.began)
        return history

    def _add(self, event: dict[str, Any]) -> None:
        if event["event"] == "read":
            self.reads.append(Read(event["began"], event["ended"], tuple(event["scans"])))
            return
        if event["event"] not in ("begin", OK, FAILED, UNKNOWN):
            return
        token = event["token"]
        if event["event"] == "begin":
            self.appends[token] = Append(token, tuple(event["keys"]), event["at"])
        else:
            begun = self.appends[token]
            ended = event["at"] if event["event"] != UNKNOWN else math.inf
            self.appends[token] = Append(token, begun.keys, begun.began, ended, event["event"])


def find_anomalies(history: History) -> list[Anomaly]:
    """Return what is wrong in a history; an empty list if it is right."""
    anomalies = _check_scans(history)
    orders = _find_orders(history, anomalies)
    anomalies += _check_acknowledged(history)
    if not anomalies:  # the graph needs one order per key
        anomalies += _check_cycles(history, orders)
    return anomalies


def _check_scans(history: History) -> list[Anomaly]:
    """Check each read by itself."""
    anomalies = []
    for read in history.reads:
        for scan in read.scans:
            for key, lists in scan.items():
                if len(lists) > 1:
                    anomalies.append(Anomaly("doubled row", f"key {key} has {len(lists)} rows"))
                if len(set(lists[0])) < len(lists[0]):
                    anomalies.append(Anomaly("doubled write", f"key {key} has a token twice: {lists[0]}"))
            anomalies += _check_tokens(history, read, scan)
        if any(scan != read.scans[0] for scan in read.scans):
            anomalies.append(Anomaly("non-repeatable read", "two scans of one query differ"))
    return anomalies


def _check_tokens(history: History, read: Read, scan: Scan) -> list[Anomaly]:
    """Check that the tokens in a scan are of writes that may be seen, and that each write is seen as a whole."""
    seen: dict[int, set[str]] = defaultdict(set)
    for key, lists in scan.items():
        for token in lists[0]:
            seen[token].add(key)
    anomalies = []
    for token, keys in seen.items():
        append = history.appends.get(token)
        if append is None or append.outcome == FAILED:
            anomalies.append(Anomaly("dirty read", f"token {token} was {'not acknowledged' if append else 'never written'}"))
        elif append.began > read.ended:
            anomalies.append(Anomaly("read of the future", f"token {token} was written after the read"))
        elif keys != set(append.keys):
            missing = sorted(set(append.keys) ^ keys)
            anomalies.append(Anomaly("half a write", f"token {token} is in {sorted(keys)}, not in {missing}"))
    return anomalies


def _find_orders(history: History, anomalies: list[Anomaly]) -> dict[str, list[int]]:
    """Return the order of the writes of each key: the longest list. Add an anomaly for each read that has another order."""
    orders: dict[str, list[int]] = {}
    for read in history.reads:
        for scan in read.scans:
            for key, lists in scan.items():
                if len(lists[0]) > len(orders.get(key, ())):
                    orders[key] = list(lists[0])
    for read in history.reads:
        for scan in read.scans:
            for key, lists in scan.items():
                if orders[key][: len(lists[0])] != list(lists[0]):
                    anomalies.append(Anomaly("lost update", f"key {key} had {lists[0]}, and elsewhere {orders[key]}"))
    return orders


def _check_acknowledged(history: History) -> list[Anomaly]:
    """Check that each read sees all writes that were acknowledged before it began."""
    anomalies = []
    done = sorted((append for append in history.appends.values() if append.outcome == OK), key=lambda append: append.ended)
    for read in history.reads:
        for scan in read.scans:
            tokens = {key: set(lists[0]) for key, lists in scan.items()}
            for append in done:
                if append.ended >= read.began:
                    break
                lost = [key for key in append.keys if append.token not in tokens.get(key, ())]
                if lost:
                    anomalies.append(Anomaly("lost update", f"token {append.token} was acknowledged, and is not in {lost}"))
    return anomalies


Node = tuple[str, int]
Edges = dict[Node, set[Node]]


def _check_cycles(history: History, orders: Mapping[str, Sequence[int]]) -> list[Anomaly]:
    """Look for a cycle of dependencies, each followed by at most one rw."""
    depends, precedes = _real_time_edges(history, orders), _rw_edges(history, orders)
    for order in orders.values():
        for earlier, later in itertools.pairwise(order):
            depends[("write", earlier)].add(("write", later))
    for number, read in enumerate(history.reads):
        for scan in read.scans:
            for lists in scan.values():
                if lists[0]:
                    depends[("write", lists[0][-1])].add(("read", number))
    combined: Edges = defaultdict(set)
    for node, followers in depends.items():
        combined[node] |= followers
        for follower in followers:
            combined[node] |= precedes.get(follower, set())
    left = _find_cyclic(combined)
    if not left:
        return []
    named = sorted(f"{kind} {number}" for kind, number in left if kind != "moment")
    return [Anomaly("no order", f"no order explains {', '.join(named[:10])}")]


def _real_time_edges(history: History, orders: Mapping[str, Sequence[int]]) -> Edges:
    """Return edges by which what ended before another operation began precedes it: a chain of moments, which operations enter and leave."""
    observed = {token for order in orders.values() for token in order}
    moments: list[tuple[float, int, Node]] = []
    for number, read in enumerate(history.reads):
        moments += [(read.began, 0, ("read", number)), (read.ended, 1, ("read", number))]
    for token in observed:
        append = history.appends[token]
        moments.append((append.began, 0, ("write", token)))
        if append.outcome == OK:
            moments.append((append.ended, 1, ("write", token)))
    moments.sort()
    edges: Edges = defaultdict(set)
    for number, (_, is_end, node) in enumerate(moments):
        moment = ("moment", number)
        if number + 1 < len(moments):
            edges[moment].add(("moment", number + 1))
        if is_end:
            edges[node].add(moment)
        else:
            edges[moment].add(node)
    return edges


def _rw_edges(history: History, orders: Mapping[str, Sequence[int]]) -> Edges:
    """Return the edges from each read to the first write of each key that it has not seen."""
    edges: Edges = defaultdict(set)
    for number, read in enumerate(history.reads):
        for scan in read.scans:
            for key, order in orders.items():
                seen = len(scan[key][0]) if key in scan else 0
                if seen < len(order):
                    edges[("read", number)].add(("write", order[seen]))
    return edges


def _find_cyclic(edges: Edges) -> set[Node]:
    """Return the nodes that are in a cycle, or after one: those that are left when nodes without predecessors are removed again and again."""
    incoming: dict[Node, int] = defaultdict(int)
    nodes: set[Node] = set(edges)
    for followers in edges.values():
        for follower in followers:
            incoming[follower] += 1
            nodes.add(follower)
    free = [node for node in nodes if not incoming[node]]
    while free:
        node = free.pop()
        nodes.discard(node)
        for follower in edges.get(node, ()):
            incoming[follower] -= 1
            if not incoming[follower]:
                free.append(follower)
    return nodes
