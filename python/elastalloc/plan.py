"""Carries decisions out: the order of resizes, and resizes that take time, fail or never complete.

Times are in seconds of any monotonic clock. The Plan of the Go client behaves the same.
"""

import copy
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from elastalloc import placement
from elastalloc.messages import message
from elastalloc.restarts import Restarts
from elastalloc.v1 import allocator_pb2 as pb
from elastalloc.values import real

__all__ = ["Plan", "PoolError", "Step", "steps"]

MAX_BACKOFF = 3600.0  # longest back-off of a job after failures
# Seconds after which a decision is due again if the call for it failed. They double with each
# consecutive failure, up to the cadence.
FIRST_RETRY = 10.0
LOSS_DECISIONS = 3  # number of cadences for which a Plan refuses a loss of nodes


class PoolError(Exception):
    """Reports that a Plan refuses a snapshot because the pool has no nodes, or too few of the nodes
    that jobs use. Jobs keep their nodes.

    nodes is the size of the pool. in_use is the number of nodes that jobs occupy or, if it is larger,
    occupied at the last decision. max_shrink is the largest share of in_use that the pool may lose.
    persists is the time in seconds for which a larger loss is refused. It is 0 for a pool without
    nodes, which is always refused.
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
    """The resize of one job."""

    job_id: str
    nodes: int  # number of nodes of the job after the step; 0 pauses the job
    frees: bool  # whether the step releases nodes
    node_type: str = ""  # type of the nodes, if the pool has several


def steps(response: Any) -> "list[Step]":
    """Returns the steps that carry out a response of allocate or fill_idle, in the order of their
    execution. Use a Plan instead if resizes take time or fail.

    Steps that release nodes come first. Steps that acquire nodes follow in the order of the snapshot.
    In this order the jobs never occupy more nodes than the pool has. A job that moves to another
    node type has two steps. If a step fails, skip the rest and request a new decision. A job that lost
    a node and is allocated its remaining nodes has no step: the caller restarts it on them.
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
    """The state of a job in a Plan."""

    def __init__(self, nodes: int, node_type: str) -> None:
        self.group = ""  # id of its group
        self.occupied = nodes  # including nodes that it is still releasing
        # Nodes that count as in use: those occupied at the last decision or, if a step or the job
        # itself has changed them since, those occupied now.
        self.in_use = nodes
        self.size, self.type = nodes, node_type  # of the last step
        self.target, self.target_type = nodes, node_type  # of the last decision
        self.begun = None  # when the last step was returned, None once it is carried out
        self.until, self.failures = 0.0, 0  # end of the cool-down or back-off
        self.on: Dict[str, int] = {}  # units of the last step by machine, with observe_machines
        self.excluded = False  # whether the observed job has keep set
        self.kept = False  # whether the last snapshot that was sent has keep set
        self.warned = False  # whether reconcile has returned a warning that the step is overdue

    def pending(self) -> bool:
        return self.target != self.size or self.target > 0 and self.target_type != self.type

    def reserved(self) -> int:
        """Returns the number of nodes that the job occupies or may still acquire."""
        return max(self.occupied, self.size)

    def backing_off(self, now: float) -> bool:
        return self.failures > 0 and now < self.until


class _Room:
    """The nodes that jobs may still acquire without exceeding the pool or a limit of a group."""

    def __init__(self, nodes: Dict[str, int], groups: Iterable[Any], jobs: Iterable[_Job]) -> None:
        # By group and node type. The group of the free nodes is None, and the type of a limit on the
        # nodes of all types. Negative if the pool has shrunk or a limit was lowered.
        self._left: Dict[Tuple[Optional[str], Optional[str]], int] = {(None, t): n for t, n in nodes.items()}
        self._parents = {}
        for group in groups:
            self._parents[group.id] = group.parent_id
            if group.HasField("limit"):
                self._left[group.id, None] = group.limit
            for limit in group.type_limits:
                self._left[group.id, limit.node_type] = limit.limit
        for job in jobs:
            self.take(job.group, job.type, job.reserved())

    def _bounds(self, group: str, node_type: str) -> List[Tuple[Optional[str], Optional[str]]]:
        """Returns what a job of a group takes from with each node of a type."""
        self._left.setdefault((None, node_type), 0)
        bounds = [(None, node_type)]
        for _ in self._parents:  # The path to the root is not longer, also if the parents are not valid.
            bounds += [b for b in ((group, node_type), (group, None)) if group and b in self._left]
            group = self._parents.get(group, "")
        return bounds

    def free(self, node_type: str) -> int:
        """Returns the number of free nodes of a type. It is negative if the pool has shrunk."""
        return self._left.get((None, node_type), 0)

    def fits(self, group: str, node_type: str, nodes: int) -> bool:
        """Returns whether a job of a group may acquire nodes of a type."""
        return all(nodes <= self._left[bound] for bound in self._bounds(group, node_type))

    def take(self, group: str, node_type: str, nodes: int) -> None:
        """Reserves nodes of a type for a job of a group."""
        for bound in self._bounds(group, node_type):
            self._left[bound] -= nodes


def _unique(jobs: Iterable[Any]) -> List[Any]:
    """Returns the jobs of a snapshot, one for each id."""
    unique: Dict[str, Any] = {}
    for job in jobs:
        if job.id in unique:
            largest = max(unique[job.id], job, key=lambda one: one.current_nodes)
            job = copy.deepcopy(largest)
            job.keep = True
        unique[job.id] = job
    return list(unique.values())


class _Machines(NamedTuple):
    """The machines of a pool and those that jobs occupy."""

    nodes: List[placement.Node]
    sizes: List[int]
    jobs: Dict[str, placement.Job]


class Plan:
    """Carries decisions out on a cluster that changes meanwhile: nodes take time to be released,
    resizes fail, jobs arrive and complete, and nodes appear and disappear. A Plan makes no call and
    has no clock. The loop of a scheduler is

        steps, warnings = plan.reconcile(now, snapshot, decide)  # Log warnings and exceptions.
        for job_id in plan.overdue(now):
            kill(job_id)  # SIGTERM, and SIGKILL after a grace period.
            plan.failed(now, job_id)
        for step in steps:
            if not resize(step):
                plan.failed(now, step.job_id)

    Jobs never get more nodes than are free or than the limits of their groups allow: a step that needs
    nodes waits until observe has seen enough of them released. The state of a Plan may be lost, for example by a restart. The next observe
    rebuilds it, except restarts, which you can save: plan.restarts.to_json(), and before the loop
    plan.restarts = Restarts.from_json(text).

    reason is why the decision was due that snapshot was last called for: "event", "cadence", or
    "retry" if the call for the last decision failed. A function that requests decisions may depend
    on it.

    All times are in seconds.

    - cadence is the time between two decisions without an event.
    - patience is the time after which a step is overdue if its job does not reach the new size, and
      after which the rest of a decision is abandoned if no step is carried out. It must exceed the
      termination grace period of every job.
    - cool_down is the time for which a job keeps its nodes after a resize.
    - backoff is the time for which a job is not resized after a failed step. It doubles with each
      consecutive failure.
    - max_shrink is the share, 0 to 1, of the nodes in use at the last decision that the pool may
      lose. A larger loss is probably an error in the snapshot, so it is refused with a PoolError until
      it has lasted for three times the cadence. With 1 only a pool without nodes is refused.
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
        self.cadence, self.patience = real("cadence", cadence), real("patience", patience)
        self.cool_down, self.backoff = real("cool_down", cool_down), real("backoff", backoff)
        self.max_shrink = real("max_shrink", max_shrink)
        self.restarts = Restarts()
        self._nodes: Dict[str, int] = {}
        self._groups: Sequence[Any] = ()
        self._jobs: Dict[str, _Job] = {}
        self._last_progress = self._requested = -float("inf")
        self.reason = ""
        self._failures, self._retry = 0, 0.0  # Consecutive failed calls, and when the next is due.
        self._machines: Optional[_Machines] = None  # None before observe_machines
        self._event = True  # the cluster changed since snapshot was last called
        self._lost_since: Optional[float] = None  # None if the pool has not lost too many nodes
        self._refused: Optional[PoolError] = None  # None if the pool is plausible

    def reconcile(
        self, now: float, snapshot: Any, decide: Callable[[Any], Any]
    ) -> Tuple[List[Step], List[Any]]:
        """Observes the cluster, calls decide if a decision is due, and returns the steps to begin
        now. The warnings are those of the decision, and one for each step that has become overdue.
        Call it every few seconds. The snapshot is a message, or a dict as message() accepts it. It
        combines observe, due, snapshot, decide, decision_failed and next; use these if a decision
        arrives asynchronously.

        If decide raises an exception, reconcile raises it too. The next call continues with the
        last decision, and decide is called again at the next event or after 10 s, which double with
        each consecutive failure up to the cadence. If the pool lost too many nodes, reconcile raises
        a PoolError and does not call decide.
        """
        if isinstance(snapshot, dict):
            snapshot = message(pb.Snapshot, **snapshot)
        self.observe(now, snapshot)
        if self._refused is not None:
            raise self._refused
        warnings: List[Any] = []
        if self.due(now):
            sent = self.snapshot(now, snapshot)
            try:
                response = decide(sent)
            except Exception:
                self.decision_failed(now)
                raise
            self.decide(now, response)
            if isinstance(response, pb.AllocateResponse):  # fill_idle returns no report.
                warnings = list(response.report.warnings)
        return self.next(now), warnings + self._warn_overdue(now)

    def _warn_overdue(self, now: float) -> List[Any]:
        """Returns a warning for each step that is overdue, once."""
        warnings = []
        for job_id, job in self._jobs.items():
            overdue = self._is_overdue(job, now)
            if overdue and not job.warned:
                text = (
                    f"job {job_id}: its step to {job.size} nodes has not completed within "
                    f"{self.patience:.0f} s, and its nodes stay reserved; send SIGTERM to its "
                    "processes, SIGKILL after a grace period, and report the step as failed"
                )
                warnings.append(pb.Warning(job_id=job_id, message=text))
            job.warned = overdue
        return warnings

    def observe(self, now: float, snapshot: Any) -> None:
        """Updates the state of the cluster. In the snapshot, total_nodes or node_types are the
        usable nodes, without those on which a completed job still runs. The jobs are those that have
        not completed, and current_nodes is the number of nodes that a job occupies, including nodes
        that it is still releasing. A new job with training_time has started before. A job with keep,
        which another program resizes for example, is not resized. All other fields are ignored.

        A step is carried out once its job occupies the nodes of the step. If a job changes its nodes
        in another way, its step is void. If several jobs have the same id, which is an error of the
        caller, they count as one job with keep that has the largest number of nodes.
        """
        nodes = {t.id: t.nodes for t in snapshot.node_types} or {"": snapshot.total_nodes}
        self._event |= self._nodes != nodes
        known, self._nodes, self._groups, self._jobs = self._jobs, nodes, snapshot.groups, {}
        jobs = _unique(snapshot.jobs)
        for job_message in jobs:
            occupied, node_type = job_message.current_nodes, job_message.current_node_type
            job = known.pop(job_message.id, None)
            if job is None:
                self._event, job = True, _Job(occupied, node_type)
            if job.begun is not None or occupied > job.in_use:
                job.in_use = occupied
            grows, job.group, job.occupied = job.size > job.occupied, job_message.group_id, occupied
            if job.begun is not None and (occupied == job.size or grows == (occupied > job.size)):
                self._event |= self._is_overdue(job, now)
                self._last_progress, job.begun, job.until, job.failures = now, None, now + self.cool_down, 0
            if job.begun is None and (occupied != job.size or occupied > 0 and node_type != job.type):
                self._event = True
                job.size, job.type, job.target, job.target_type = occupied, node_type, occupied, node_type
            self._event |= job.excluded != job_message.keep
            job.excluded = job_message.keep
            if job.excluded:
                job.target, job.target_type = job.size, job.type
            self._jobs[job_message.id] = job
        self._event |= bool(known)  # They completed.
        resizing = {job_id for job_id, job in self._jobs.items() if job.begun is not None}
        self.restarts.observe(now, jobs, resizing)  # A step counts once it is carried out.
        self._check_pool(now)

    def _check_pool(self, now: float) -> None:
        """Sets _refused if the pool is not plausible: see max_shrink."""
        nodes, jobs = sum(self._nodes.values()), self._jobs.values()
        occupied, in_use = sum(job.occupied for job in jobs), sum(job.in_use for job in jobs)
        self._refused = None
        if nodes <= 0 and occupied > 0:
            self._lost_since, self._refused = None, PoolError(0, occupied, self.max_shrink, 0)
        elif in_use - nodes <= self.max_shrink * in_use:
            self._lost_since = None
        else:
            if self._lost_since is None:
                self._lost_since = now
            persists = LOSS_DECISIONS * self.cadence
            if now - self._lost_since < persists:
                self._refused = PoolError(nodes, in_use, self.max_shrink, persists)

    def due(self, now: float) -> bool:
        """Returns whether a new decision is due. It is due at the first call, and after an event
        since the last call of snapshot: a job arrived, completed or changed its nodes, the pool
        changed, a step failed or is overdue, a back-off has elapsed, or the rest of the decision was
        abandoned. Without an event it is due after the cadence, once the last decision is carried
        out, and after decision_failed."""
        return self._due_reason(now) != ""

    def _due_reason(self, now: float) -> str:
        """Returns why a decision is due, "" if none is."""
        if self._event:
            return "event"
        busy = False
        for job in self._jobs.values():
            if job.backing_off(self._requested) and not job.backing_off(now):
                return "event"
            since = self._last_progress
            if job.begun is not None:
                since = job.begun
            elif not job.pending() or job.backing_off(now):
                continue
            late = self._late(since, now)
            if late and not self._late(since, self._requested):
                return "event"
            busy |= not late
        if self._failures and now >= self._retry:
            return "retry"
        return "cadence" if not busy and now - self._requested >= self.cadence else ""

    def snapshot(self, now: float, snapshot: Any) -> Any:
        """Observes the cluster and returns the snapshot to send. It is a copy with these changes:

        - A job has the size of its last step as current_nodes. If the step is overdue, or if
          the job has keep in the snapshot, it has the nodes that it occupies or may still acquire.
        - A job without recent_restarts has those of restarts. If the snapshot has some for a job, they
          are sent.
        - A job whose step is not carried out yet, or that is in back-off or cools down, has keep set.
          If jobs occupy more nodes than the pool has, only jobs in back-off and jobs whose steps are
          overdue have. A job that is being paused does not have it, so that it can be started again.

        Raises a PoolError if the pool lost too many nodes."""
        self.observe(now, snapshot)
        if self._refused is not None:
            raise self._refused
        self.reason = self._due_reason(now) or "cadence"
        self._requested, self._event = now, False
        for job in self._jobs.values():
            job.in_use = job.occupied
        room, sent = self._room(), copy.deepcopy(snapshot)
        for job_message in sent.jobs:
            job = self._jobs[job_message.id]
            fits = job.size > 0 and room.free(job.type) >= 0
            overdue, waits = self._is_overdue(job, now), job.begun is not None or now < job.until
            job.kept = job.excluded or overdue or job.backing_off(now) or fits and waits
            job_message.keep = job.kept
            job_message.current_nodes = job.reserved() if job.excluded or overdue else job.size
            job_message.current_node_type = job.type if job_message.current_nodes else ""
            if not job_message.recent_restarts:
                recent = message(pb.Job, recent_restarts=self.restarts.recent(job_message.id))
                job_message.MergeFrom(recent)
        return sent

    def decide(self, now: float, response: Any) -> None:
        """Sets the targets of a response of allocate or fill_idle to the last snapshot. Steps of
        earlier decisions that were not begun are void."""
        decided = {a.job_id: a for a in response.allocations}
        self._last_progress, self._failures = now, 0
        for job_id, job in self._jobs.items():
            job.target, job.target_type = job.size, job.type
            if job_id in decided and not job.kept:
                job.target, job.target_type = decided[job_id].nodes, decided[job_id].node_type

    def decision_failed(self, now: float) -> None:
        """Reports that the call for the last snapshot failed. A decision is due again after 10 s,
        which double with each consecutive failure up to the cadence."""
        wait = min(FIRST_RETRY * 2 ** min(self._failures, 64), self.cadence)
        self._failures, self._retry = self._failures + 1, now + wait

    def observe_machines(
        self,
        nodes: Sequence[placement.Node],
        sizes: Sequence[int],
        jobs: Sequence[placement.Job],
    ) -> None:
        """Updates the machines of a pool whose nodes are units of machines. From then on, next
        returns a step only when its place is free: no machine ever has more units in use and being
        released than it has. on returns the place. A job that has to move is paused, and started on
        its new machines once they are free. Call it before each observe or reconcile, for a pool
        without node types.

        nodes and sizes are those of placement.steps. Units that a completed job still releases are
        releasing of their node, not free. The jobs are those of the snapshot. Their on has the units
        that they occupy, including units that they are still releasing. units is ignored.

        ValueError names every field that is not valid. Machines are then as before.
        """
        nodes, sizes, jobs = placement.checked(nodes, sizes, [job._replace(units=0) for job in jobs])
        placement.place(nodes, sizes, jobs)
        self._machines = _Machines(nodes, sizes, {job.id: job for job in jobs})

    def on(self, job_id: str) -> Dict[str, int]:
        """Returns the units of the last step of a job by machine, if observe_machines is called. It
        is empty after a pause."""
        job = self._jobs.get(job_id)
        return job.on if job else {}

    def next(self, now: float) -> List[Step]:
        """Returns the steps to begin now, and marks them as begun. Steps that release nodes come
        first. Each step resizes a job as a gang. A job that moves to another node type, or to other
        machines, is paused first. A job has at most one step in progress. While the pool is refused,
        it returns no steps."""
        frees: List[Step] = []
        takes: List[Step] = []
        if self._refused is not None or self._late(self._last_progress, now):
            return frees
        room, places = self._room(), self._places(now)
        for job_id, job in self._jobs.items():
            place = places.get(job_id)
            leaves = place is not None and place.do in ("stop", "move")
            if job.begun is not None or job.excluded or job.backing_off(now):
                continue
            if not (job.pending() or leaves) or self._machines and place is None:
                continue
            if job.size and (job.target == 0 or job.type != job.target_type or leaves):
                frees.append(Step(job_id, 0, True))
            elif job.target < job.size:
                frees.append(Step(job_id, job.target, True, job.type))
            elif room.fits(job.group, job.target_type, job.target - job.size):
                room.take(job.group, job.target_type, job.target - job.size)
                job.type = job.target_type
                takes.append(Step(job_id, job.target, False, job.type))
            else:
                continue  # A later step may use the nodes: all targets fit together.
            job.begun, job.on = now, place.on if place else {}
        for step in frees + takes:
            job = self._jobs[step.job_id]
            job.size = step.nodes
            if not step.nodes:
                job.on = {}
        return frees + takes

    def _places(self, now: float) -> Dict[str, placement.Step]:
        """Returns the next change of each job whose place is free, and of each job that leaves its
        place, by job id. It is empty without machines."""
        places: Dict[str, placement.Step] = {}
        for step in self._placement_steps(now) if self._machines else []:
            if step.job not in places and (not step.after or step.do == "move"):
                places[step.job] = step
        return places

    def _placement_steps(self, now: float) -> List[placement.Step]:
        """Returns the steps that carry the decision out on the machines, as far as they have places
        for it. Jobs that are left alone keep theirs."""
        nodes, machines = self._unreserved(now), self._machines
        jobs: Dict[str, placement.Job] = {}
        grow: Dict[str, int] = {}  # Jobs that take units, and how many they have after that.
        for job_id, job in self._jobs.items():
            if self._left_alone(job, now):
                continue
            units = min(job.target, job.size)
            observed = machines.jobs.get(job_id) or placement.Job(job_id)
            jobs[job_id] = observed._replace(units=units)
            if job.target > job.size:
                grow[job_id] = job.target

        def attempt(grow: Dict[str, int]) -> Optional[List[placement.Step]]:
            tried = [job._replace(units=grow.get(job.id, job.units)) for job in jobs.values()]
            try:
                return placement.steps(nodes, machines.sizes, tried)
            except (placement.LimitError, placement.NotNestedError):
                return None

        steps = attempt(grow)
        if steps is not None:
            return steps
        steps = attempt({})
        if steps is None:  # Machines lost units: only pauses need no place.
            paused = [job.id for job in jobs.values() if not job.units and job.on]
            return [placement.Step(job_id, "stop", {}, []) for job_id in paused]
        placed: Dict[str, int] = {}
        for job_id, units in grow.items():
            more = attempt({**placed, job_id: units})
            if more is not None:
                steps, placed[job_id] = more, units
        return steps

    def _left_alone(self, job: _Job, now: float) -> bool:
        """Returns whether a job keeps its machines now: it is observed with keep, its step is in
        progress, or it is in back-off or cools down."""
        return (
            job.excluded
            or job.begun is not None
            or job.backing_off(now)
            or (not job.pending() and now < job.until)
        )

    def _unreserved(self, now: float) -> List[placement.Node]:
        """Returns the nodes without the units of the jobs that are left alone. Units that the step of
        a job releases are being released, unless the step is overdue."""
        alone = {id: job for id, job in self._jobs.items() if self._left_alone(job, now)}
        nodes = []
        for node in self._machines.nodes:
            free, releasing = node.free, node.releasing
            for job_id, job in alone.items():
                observed = self._machines.jobs.get(job_id)
                occupied = kept = ((observed and observed.on) or {}).get(node.id, 0)
                if job.begun is not None:
                    kept = job.on.get(node.id, 0)
                free -= max(occupied, kept)
                if not self._is_overdue(job, now):
                    releasing += max(0, occupied - kept)
            if free < 0:  # A machine may have lost units.
                free, releasing = 0, max(0, releasing + free)
            nodes.append(node._replace(free=free, releasing=releasing))
        return nodes

    def failed(self, now: float, job_id: str) -> None:
        """Reports that the step of a job in progress failed. The job keeps the nodes that it
        occupies, and is not resized before its back-off has elapsed."""
        job = self._jobs.get(job_id)
        if job is None or job.begun is None:
            return  # It completed, or the step was carried out after all.
        job.size, job.target, job.target_type, job.begun = job.occupied, job.occupied, job.type, None
        job.until = now + min(self.backoff * 2 ** min(job.failures, 64), MAX_BACKOFF)
        job.failures += 1
        self._event = True

    def overdue(self, now: float) -> List[str]:
        """Returns the ids of the jobs whose steps were begun longer than the patience ago and are not
        carried out. Their nodes stay reserved until failed is called."""
        return [job_id for job_id, job in self._jobs.items() if self._is_overdue(job, now)]

    def _late(self, since: float, now: float) -> bool:
        return now - since > self.patience

    def _is_overdue(self, job: _Job, now: float) -> bool:
        return job.begun is not None and self._late(job.begun, now)

    def _room(self) -> _Room:
        """Returns what the jobs leave with the nodes that they have reserved."""
        return _Room(self._nodes, self._groups, self._jobs.values())
