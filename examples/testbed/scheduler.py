"""The scheduler of a testbed: one loop with a Plan, as docs/schedulers/integrate.md describes it."""

import dataclasses
import sys
import time
from typing import Any, Callable, Dict, List, Optional

import grpc

from elastalloc import Client, Plan, PoolError, pb
from testbed.cluster import Cluster, State
from testbed.jobs import SCALE, SLOW, Job
from testbed.policies import Policy

PERIOD = 0.03  # seconds between two passes of the loop
# Seconds after which a step is overdue. The scheduler kills processes after their grace period itself, so only a
# machine that is very slow reaches it.
PATIENCE = 120.0


@dataclasses.dataclass
class Result:
    """What was measured in a run. Times are in seconds."""

    policy: str
    jct_s: Dict[str, float]  # job completion time by job id
    states: Dict[str, State]
    saved: Dict[str, Dict[str, Any]]  # last checkpoint by job id
    peak: int  # largest number of nodes in use at the same time
    steps: int  # number of steps of the Plan
    calls_ms: List[float]  # times of the calls of the server
    began: float  # monotonic time of the begin
    failed_calls: int = 0
    types: Dict[str, int] = dataclasses.field(default_factory=lambda: {"": 0})  # number of nodes by type


class Scheduler:
    """Runs jobs under a policy until all are complete. observe is called in each pass."""

    def __init__(
        self, cluster: Cluster, jobs: List[Job], policy: Policy, observe: Optional[Callable[["Scheduler"], None]] = None
    ) -> None:
        self.cluster, self.policy, self.observe = cluster, policy, observe
        self.waiting = sorted(jobs, key=lambda job: job.submit_s)
        self.plan = Plan(cadence=policy.cadence, patience=SCALE * PATIENCE)
        self.began = time.monotonic()
        self.result = Result(policy.name, {}, cluster.states, {}, 0, 0, policy.calls_ms, self.began, types=cluster.types)
        self._trained: Dict[str, float] = {}  # seconds with nodes by job id
        self._seen = self.began

    def run(self) -> Result:
        """Runs all jobs."""
        while self.waiting or len(self.result.jct_s) < len(self.cluster.states):
            self.cluster.poll()
            if self.observe:
                self.observe(self)
            self._submit_and_complete()
            self.reconcile()
            time.sleep(PERIOD)
        self.result.peak = self.cluster.peak
        return self.result

    def seconds(self) -> float:
        """Returns the seconds since the begin."""
        return time.monotonic() - self.began

    def _submit_and_complete(self) -> None:
        now = self.seconds()
        while self.waiting and self.waiting[0].submit_s <= now:
            self.cluster.add(self.waiting.pop(0))
        for state in self._unfinished():
            if state.nodes():
                self._trained[state.job.id] = self._trained.get(state.job.id, 0.0) + now - self._seen + self.began
            elif state.step >= state.job.steps:
                gone = state.attempts[-1].gone - self.began
                self.result.jct_s[state.job.id] = gone - state.job.submit_s
                self.result.saved[state.job.id] = self.cluster.saved(state)
        self._seen = self.began + now

    def _unfinished(self) -> List[State]:
        return [state for state in self.cluster.states.values() if state.job.id not in self.result.jct_s]

    def snapshot(self) -> pb.Snapshot:
        """Describes the jobs that have not completed, with all times multiplied by SCALE."""
        snapshot, types = pb.Snapshot(), self.cluster.types
        if len(types) == 1:
            snapshot.total_nodes = self.cluster.nodes
        else:
            for name, nodes in types.items():
                snapshot.node_types.add(id=name, nodes=nodes)
        now = self.seconds()
        for state in self._unfinished():
            job, attempt = state.job, state.current()
            described = snapshot.jobs.add(id=job.id, current_nodes=state.nodes(), eta_nodes=1)
            if len(types) > 1:
                described.current_node_type = attempt.node_type if attempt else ""
                kept = self.policy.keeps_type and state.attempts
                for name in [state.attempts[0].node_type] if kept else types:
                    described.speeds.add(node_type=name, factor=1 / job.model.slow if name == SLOW else 1)
            described.allowed_nodes[:] = job.sizes()
            described.scaling.table.speeds[:] = job.model.speeds()
            trained = self._trained.get(job.id, 0.0)
            for field, seconds in (
                (described.remaining_eta, max(0.01, job.work_s(job.steps - state.step))),
                (described.restart_time, job.model.restart_s()),
                (described.training_time, trained),
                (described.waiting_time, max(0.0, now - job.submit_s - trained)),
            ):
                field.FromNanoseconds(round(1e9 * SCALE * seconds))
        return snapshot

    def reconcile(self) -> None:
        """Requests a decision if one is due, and begins the steps that can be begun."""
        now = SCALE * self.seconds()
        try:
            steps, warnings = self.plan.reconcile(now, self.snapshot(), self.policy.decide(self.plan, now))
        except (grpc.RpcError, PoolError):
            self.result.failed_calls += 1  # All jobs keep their nodes.
            return
        for warning in warnings:
            print(warning.message, file=sys.stderr)
        for job_id in self.plan.overdue(now):
            self.cluster.kill(self.cluster.states[job_id])
            self.plan.failed(now, job_id)
        for step in steps:
            self.result.steps += 1
            self.cluster.resize(self.cluster.states[step.job_id], step.nodes, step.node_type)


def run(cluster: Cluster, jobs: List[Job], name: str, target: str, **options: Any) -> Result:
    """Runs jobs on a cluster under a policy of a name, with the server of a target."""
    requested = {job.id: job.requested for job in jobs}
    with Client(target, timeout=1.0) as client:
        return Scheduler(cluster, jobs, Policy(name, client, requested), **options).run()
