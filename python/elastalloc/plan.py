"""Carries decisions out: in which order, and where resizes take time, fail or never end.

Times are in seconds of any clock that does not go back. The Go client's Plan is the same machine.
"""

import copy
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from elastalloc.messages import message
from elastalloc.v1 import allocator_pb2 as pb

__all__ = ["Plan", "PoolError", "Step", "reserve", "steps"]

MAX_BACKOFF = 3600.0  # for which a job is left alone after failures at most
LOSS_DECISIONS = 3  # for how many cadences a loss of nodes is refused


class PoolError(Exception):
    """Means that a Plan refuses a snapshot, because the pool has none or too few of the nodes that
    jobs use. Jobs keep their nodes.

    nodes is the size of the pool, and in_use how many nodes the jobs hold or, if that is more,
    held at the last decision. max_shrink and persists are the largest share that the pool may lose
    and for how many seconds a larger loss is refused. For a pool without nodes persists is 0: it is
    always refused.
    """

    def __init__(self, nodes: int, in_use: int, max_shrink: float, persists: float) -> None:
        self.nodes, self.in_use = nodes, in_use
        self.max_shrink, self.persists = max_shrink, persists
        text = (
            f"the pool has {nodes} nodes, but jobs occupied {in_use} at the last decision; "
            f"it may lose at most {100 * max_shrink:.3g}% of them. Jobs keep their nodes until "
            f"nodes return or this has lasted {persists:.0f} s."
        )
        if persists == 0:
            text = (
                f"the pool has 0 nodes, but jobs occupy {in_use}; total_nodes or node_types must "
                "be the usable nodes. Jobs keep their nodes."
            )
        super().__init__(text)


class Step(NamedTuple):
    """One job to resize when a decision is carried out."""

    job_id: str
    nodes: int  # What it holds once the step is done; 0 if it pauses.
    frees: bool  # The step frees nodes, and does not take any.
    node_type: str = ""  # of the nodes, in a pool that has several


def steps(response: Any) -> "list[Step]":
    """Returns the order to carry out an answer of allocate or fill_idle in at once; a Plan does
    where resizes take time or fail.

    Jobs that free nodes come first, then in the order of the snapshot those that take some,
    so that there are never more nodes in use than the pool has. A job that moves to another node
    type is in both. Where a step fails, leave out the rest and ask for a new decision. A job that
    has lost a node and keeps those that are left has no step: restarting it on them is up to the
    caller.
    """
    frees, takes = [], []
    for a in response.allocations:
        if a.change == pb.CHANGE_MOVE:
            frees.append(Step(a.job_id, 0, True))
        if a.change in (pb.CHANGE_PREEMPT, pb.CHANGE_SCALE_DOWN):
            frees.append(Step(a.job_id, a.nodes, True, a.node_type))
        elif a.change in (pb.CHANGE_START, pb.CHANGE_SCALE_UP, pb.CHANGE_MOVE):
            takes.append(Step(a.job_id, a.nodes, False, a.node_type))
    return frees + takes


class _Job:
    """A job as a Plan knows it."""

    def __init__(self, nodes: int, node_type: str) -> None:
        self.held = nodes  # that it was seen to hold, those that it is still leaving included
        # What it held at the last decision or, if it has got others since by a step or more on
        # its own, holds now.
        self.in_use = nodes
        self.size, self.type = nodes, node_type  # that it was last told to hold
        self.target, self.target_type = nodes, node_type  # that were decided
        self.begun = None  # when it was told, None once that is carried out
        self.until, self.failures = 0.0, 0  # the end of its cool-down or back-off

    def pending(self) -> bool:
        return self.target != self.size or self.target > 0 and self.target_type != self.type

    def reserved(self) -> int:
        """Returns how many nodes it holds or may yet take."""
        return max(self.held, self.size)

    def left_alone(self, now: float) -> bool:
        return self.failures > 0 and now < self.until


class Plan:
    """Carries decisions out on a cluster whose nodes take time to come free, where resizes fail,
    and where jobs and nodes come and go meanwhile. It makes no call and has no clock. A
    scheduler's loop is

        # The cluster as it is, and how to decide.
        steps, warnings = plan.turn(now, snapshot, ask)  # Print what it raises, and the warnings.
        for step in steps:
            if not resize(step):
                plan.failed(now, step.job_id)

    Jobs never get more nodes than are free: a step that takes nodes waits until those that it
    needs were seen to be free. What a Plan knows can be lost: the next observe begins anew.

    cadence is the time between two decisions if nothing happens. patience is when a step that
    was begun is overdue, and when the rest of a decision is given up because nothing has moved;
    it exceeds any grace period of a job. cool_down is how long a job keeps its nodes after they
    changed, backoff how long it is left alone after a failure; that doubles with each further one
    in a row. max_shrink is the share of the nodes in use at the last decision that the pool may
    lose, 0 to 1; 1 refuses only a pool without nodes. A larger loss is likely to be a fault of the
    snapshot, so it is refused with a PoolError for three times the cadence.
    """

    def __init__(
        self,
        *,
        cadence: float = 300.0,
        patience: float = 300.0,
        cool_down: float = 0.0,
        backoff: float = 60.0,
        max_shrink: float = 0.3,
    ) -> None:
        self.cadence, self.patience = cadence, patience
        self.cool_down, self.backoff = cool_down, backoff
        self.max_shrink = max_shrink
        self._nodes: Dict[str, int] = {}
        self._jobs: Dict[str, _Job] = {}
        self._moved = self._asked = -float("inf")
        self._event = True  # Something happened since it was asked.
        self._lost: Optional[float] = None  # since when too many nodes are missing
        self._refused: Optional[PoolError] = None  # None if the pool is believed

    def turn(
        self, now: float, snapshot: Any, ask: Callable[[Any], Any]
    ) -> Tuple[List[Step], List[Any]]:
        """Is one turn of a scheduler, every few seconds: observes the cluster, asks for a decision
        where one is due, and returns the steps to begin now and the warnings of a decision that it
        asked for. The snapshot is a message, or a dict as message() takes it. It is observe, due,
        snapshot, decide and next, which do the same where the answer comes later.

        What ask raises it raises: the next turn goes on with the last decision, and asks at the
        next event or after the cadence. If the pool lost too many nodes, it does not ask and raises
        a PoolError.
        """
        if isinstance(snapshot, dict):
            snapshot = message(pb.Snapshot, **snapshot)
        self.observe(now, snapshot)
        if self._refused is not None:
            raise self._refused
        warnings: List[Any] = []
        if self.due(now):
            response = ask(self.snapshot(now, snapshot))
            self.decide(now, response)
            if isinstance(response, pb.AllocateResponse):  # That of fill_idle has no report.
                warnings = list(response.report.warnings)
        return self.next(now), warnings

    def observe(self, now: float, snapshot: Any) -> None:
        """Tells what the cluster is like: total_nodes or node_types are the usable nodes, jobs
        those that have not ended, with the nodes that they hold as current_nodes, those included
        that they are still leaving. Other fields are not looked at. Nodes on which a job that
        ended still runs are not usable.

        A step is carried out once its job is seen to hold the nodes. A job that changes on its
        own voids its step.
        """
        nodes = {t.id: t.nodes for t in snapshot.node_types} or {"": snapshot.total_nodes}
        self._event |= any(self._nodes.get(t) != n for t, n in nodes.items())
        known, self._nodes, self._jobs = self._jobs, nodes, {}
        for told in snapshot.jobs:
            held, node_type = told.current_nodes, told.current_node_type
            job = known.pop(told.id, None)
            if job is None:
                self._event, job = True, _Job(held, node_type)
            if job.begun is not None or held > job.in_use:
                job.in_use = held
            grows, job.held = job.size > job.held, held
            if job.begun is not None and (held == job.size or grows == (held > job.size)):
                self._event |= self._is_overdue(job, now)
                self._moved, job.begun, job.until, job.failures = now, None, now + self.cool_down, 0
            if job.begun is None and (held != job.size or held > 0 and node_type != job.type):
                self._event = True
                job.size, job.type, job.target, job.target_type = held, node_type, held, node_type
            self._jobs[told.id] = job
        self._event |= bool(known)  # They ended.
        self._judge(now)

    def _judge(self, now: float) -> None:
        """Decides whether the pool is believed: see max_shrink."""
        nodes, jobs = sum(self._nodes.values()), self._jobs.values()
        held, in_use = sum(job.held for job in jobs), sum(job.in_use for job in jobs)
        self._refused = None
        if nodes <= 0 and held > 0:
            self._lost, self._refused = None, PoolError(0, held, self.max_shrink, 0)
        elif in_use - nodes <= self.max_shrink * in_use:
            self._lost = None
        else:
            if self._lost is None:
                self._lost = now
            persists = LOSS_DECISIONS * self.cadence
            if now - self._lost < persists:
                self._refused = PoolError(nodes, in_use, self.max_shrink, persists)

    def due(self, now: float) -> bool:
        """Returns whether to ask for a decision: a job came, ended or changed on its own, nodes
        came or went, a step failed or is overdue, or a backoff ended since snapshot was last
        called; the rest of the decision is given up; or all of it is carried out and the cadence
        has passed."""
        if self._event:
            return True
        busy = False
        for job in self._jobs.values():
            if job.left_alone(self._asked) and not job.left_alone(now):
                return True
            since = self._moved
            if job.begun is not None:
                since = job.begun
            elif not job.pending() or job.left_alone(now):
                continue
            late = self._late(since, now)
            if late and not self._late(since, self._asked):
                return True
            busy |= not late
        return not busy and now - self._asked >= self.cadence

    def snapshot(self, now: float, snapshot: Any) -> Any:
        """Observes the cluster and returns the snapshot to ask about: the given one, where a job
        holds what it was told to, though it may still be on its way there. That job may have no
        other size, nor a job that cools down, unless jobs hold more than the pool has. That
        leaves out one whose speed table has not an entry for each of its allowed_nodes, and one
        with sizes or a scaling of their own for node types. Jobs whose step is overdue, or failed
        a short while ago, are left out with their nodes: see reserve. If the pool lost too many
        nodes, raises a PoolError."""
        self.observe(now, snapshot)
        if self._refused is not None:
            raise self._refused
        self._asked, self._event = now, False
        for job in self._jobs.values():
            job.in_use = job.held
        free, sent = self._free(), copy.deepcopy(snapshot)
        del sent.jobs[:]
        for told in snapshot.jobs:
            job = self._jobs[told.id]
            if self._is_overdue(job, now) or job.left_alone(now):
                reserve(sent, told.group_id, job.type, job.reserved())
                continue
            sent.jobs.add().CopyFrom(told)
            told = sent.jobs[-1]
            told.current_nodes, told.current_node_type = job.size, job.type if job.size else ""
            if job.size and free[job.type] >= 0 and (job.begun is not None or now < job.until):
                _pin(told)
        return sent

    def decide(self, now: float, response: Any) -> None:
        """Takes an answer to the last snapshot, of allocate or fill_idle. Steps of earlier
        decisions that were not begun are void."""
        decided = {a.job_id: a for a in response.allocations}
        self._moved = now
        for job_id, job in self._jobs.items():
            job.target, job.target_type = job.size, job.type
            if job_id in decided:
                job.target, job.target_type = decided[job_id].nodes, decided[job_id].node_type

    def next(self, now: float) -> List[Step]:
        """Returns the steps to begin now, those that free nodes first, and takes them as begun.
        Each resizes a job as a gang; a job that moves to another node type is first paused. A
        job has one step under way at a time. While the pool is refused there are none."""
        frees: List[Step] = []
        takes: List[Step] = []
        if self._refused is not None or self._late(self._moved, now):
            return frees
        free = self._free()
        for job_id, job in self._jobs.items():
            if job.begun is not None or not job.pending() or job.left_alone(now):
                continue
            if job.size and (job.target == 0 or job.type != job.target_type):
                frees.append(Step(job_id, 0, True))
            elif job.target < job.size:
                frees.append(Step(job_id, job.target, True, job.type))
            elif job.target - job.size <= free[job.target_type]:
                free[job.target_type] -= job.target - job.size
                job.type = job.target_type
                takes.append(Step(job_id, job.target, False, job.type))
            else:
                continue  # It takes nothing from a later one: all that was decided fits.
            job.begun = now
        for step in frees + takes:
            self._jobs[step.job_id].size = step.nodes
        return frees + takes

    def failed(self, now: float, job_id: str) -> None:
        """Tells that the step of a job which is under way failed and is given up: the job holds
        what it is seen to hold, and is left alone for a while."""
        job = self._jobs.get(job_id)
        if job is None or job.begun is None:
            return  # It ended, or the step was carried out after all.
        job.size, job.target, job.target_type, job.begun = job.held, job.held, job.type, None
        job.until = now + min(self.backoff * 2 ** min(job.failures, 64), MAX_BACKOFF)
        job.failures += 1
        self._event = True

    def overdue(self, now: float) -> List[str]:
        """Returns the jobs whose steps were begun longer than the patience ago and are not carried
        out. Nodes that they may yet take or have not left are not given away. Once a step will
        not be carried out any more, failed ends that."""
        return [job_id for job_id, job in self._jobs.items() if self._is_overdue(job, now)]

    def _late(self, since: float, now: float) -> bool:
        return now - since > self.patience

    def _is_overdue(self, job: _Job, now: float) -> bool:
        return job.begun is not None and self._late(job.begun, now)

    def _free(self) -> Dict[str, int]:
        """Returns how many nodes of each type no job holds or may yet take: less than 0 where the
        pool shrank."""
        free = dict(self._nodes)
        for job in self._jobs.values():
            free[job.type] = free.get(job.type, 0) - job.reserved()
            free.setdefault(job.target_type, 0)
        return free


def _pin(job: Any) -> None:
    """Leaves a running job no size or node type but those that it has, if those of its speeds
    allow."""
    if any(t.HasField("scaling") or t.allowed_nodes for t in job.speeds):
        return
    if job.scaling.WhichOneof("curve") != "table":
        job.allowed_nodes[:] = [job.current_nodes]
    elif (
        len(job.scaling.table.speeds) != len(job.allowed_nodes)
        or job.current_nodes not in job.allowed_nodes
    ):
        return
    job.min_nodes = job.max_nodes = job.current_nodes
    if job.current_node_type:
        kept = [t for t in job.speeds if t.node_type == job.current_node_type]
        kept = kept or [pb.TypeSpeed(node_type=job.current_node_type)]
        del job.speeds[:]
        job.speeds.extend(kept)


def reserve(snapshot: Any, group_id: str, node_type: str, nodes: int) -> None:
    """Makes a snapshot that leaves a job out ask about no node which that job holds: they are
    taken from the pool, or from their node type, and from the job's group with those that it is
    part of."""
    taken = nodes
    for t in snapshot.node_types:
        if t.id == node_type:
            taken = min(nodes, t.nodes)
            t.nodes -= taken
    snapshot.total_nodes = max(0, snapshot.total_nodes - taken)  # With types 0 or their sum.
    groups = {group.id: group for group in snapshot.groups}
    for _ in snapshot.groups:  # Groups that are part of themselves end, too.
        group = groups.get(group_id)
        if group is None:
            break
        group.quota = max(0, group.quota - nodes)
        if group.HasField("limit"):
            group.limit = max(0, group.limit - nodes)
        group_id = group.parent_id
