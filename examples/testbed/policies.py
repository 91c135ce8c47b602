"""Policies: functions from a snapshot to a response. A Plan carries all of them out in the same way."""

import math
import time
from typing import Any, Callable, Dict, List

from elastalloc import Client, Plan, message, pb

Decide = Callable[[pb.Snapshot], Any]

PERIOD = 300.0  # seconds between two decisions of max-min, as in the simulator


def response(nodes: Dict[str, int]) -> pb.AllocateResponse:
    """Returns a response that gives each job its nodes."""
    allocations = [{"job_id": job_id, "nodes": n} for job_id, n in nodes.items()]
    return message(pb.AllocateResponse, allocations=allocations)


def legal_sizes(job: pb.Job) -> List[int]:
    """Returns the legal sizes of a job."""
    most = job.max_nodes or math.inf
    return [size for size in job.allowed_nodes if max(1, job.min_nodes) <= size <= most]


def fifo(snapshot: pb.Snapshot, requested: Dict[str, int]) -> Dict[str, int]:
    """Starts queued jobs on the nodes that they requested, in order. No job overtakes another one."""
    nodes = {job.id: job.current_nodes for job in snapshot.jobs}
    idle = snapshot.total_nodes - sum(nodes.values())
    for job in snapshot.jobs:
        if job.current_nodes or job.keep:
            continue
        if requested[job.id] > idle:
            break
        nodes[job.id] = requested[job.id]
        idle -= requested[job.id]
    return nodes


def max_min(snapshot: pb.Snapshot) -> Dict[str, int]:
    """Gives every job its smallest size, in order, and then repeatedly the slowest job its next size."""
    nodes = {job.id: job.current_nodes if job.keep else 0 for job in snapshot.jobs}
    idle = snapshot.total_nodes - sum(nodes.values())
    jobs = [job for job in snapshot.jobs if not job.keep]
    for job in [j for j in jobs if j.current_nodes] + [j for j in jobs if not j.current_nodes]:
        smallest = legal_sizes(job)[0]
        if smallest > idle:
            if not job.current_nodes:
                break  # No job of the queue overtakes another one.
            continue
        nodes[job.id] = smallest
        idle -= smallest
    growing = [job for job in jobs if nodes[job.id]]

    def speed(job: pb.Job) -> float:
        return job.scaling.table.speeds[list(job.allowed_nodes).index(nodes[job.id])]

    while growing:
        slowest = min(growing, key=speed)
        more = [size for size in legal_sizes(slowest) if size > nodes[slowest.id]]
        if more and more[0] - nodes[slowest.id] <= idle:
            idle -= more[0] - nodes[slowest.id]
            nodes[slowest.id] = more[0]
        else:
            growing.remove(slowest)
    return nodes


class Policy:
    """A policy of the testbed, by its name in the simulator."""

    NAMES = ("total-time", "max-min", "fifo")
    WITH_TYPES = ("total-time", "type-kept")  # policies for several node types

    def __init__(self, name: str, client: Client, requested: Dict[str, int]) -> None:
        self.name, self._client, self._requested = name, client, requested
        self.keeps_type = name == "type-kept"  # Jobs do not leave the node type on which they start.
        # max-min decides at multiples of 5 min, so its Plan must look often whether one has passed.
        self.cadence = 5.0 if name == "max-min" else 300.0
        self._last = -1.0  # number of the last period in which max-min decided
        self.calls_ms: List[float] = []  # times of the calls of the server

    def decide(self, plan: Plan, now: float) -> Decide:
        """Returns the function to pass to Plan.reconcile now."""

        def max_min_or_fill(snapshot: pb.Snapshot) -> Any:
            if now // PERIOD > self._last:
                self._last = now // PERIOD
                return response(max_min(snapshot))
            if plan.reason == "cadence":
                return response({job.id: job.current_nodes for job in snapshot.jobs})
            return self._measured(self._client.fill_idle, snapshot)

        if self.name in self.WITH_TYPES:
            return lambda snapshot: self._measured(self._client.decide, snapshot)
        if self.name == "max-min":
            return max_min_or_fill
        return lambda snapshot: response(fifo(snapshot, self._requested))

    def _measured(self, call: Decide, snapshot: pb.Snapshot) -> Any:
        start = time.monotonic()
        responded = call(snapshot)
        self.calls_ms.append(1000 * (time.monotonic() - start))
        return responded
