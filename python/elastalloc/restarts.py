"""Measures recent_restarts of jobs. Times are in seconds. The Restarts of the Go client behaves the same,
and reads the same states."""

import json
from typing import Any, Collection, Dict, List, NamedTuple, Tuple

__all__ = ["Restarts"]

MAX_RECENT_RESTARTS = 3  # maximum length of recent_restarts
MAX_TIME = 2**63 - 1  # nanoseconds


class _Job(NamedTuple):
    nodes: int
    node_type: str
    started: bool  # the job had nodes at some time
    since: Tuple[int, ...]  # nanoseconds with nodes since the last restarts, newest first


def _integer(value: Any, largest: int) -> int:
    """Returns an integer of a state. Raises ValueError for another value, which int() may accept."""
    if type(value) is not int or not -largest - 1 <= value <= largest:
        raise ValueError(f"is {value!r}; must be an integer from {-largest - 1} to {largest}")
    return value


class Restarts:
    """Measures recent_restarts: for each of the last three restarts of a job, the time for which the
    job has had nodes since then. A restart is a resize, a move to another node type or a resume,
    whether a decision caused it or not. The first start and a pause are no restarts.

    A Plan has a Restarts of its own, plan.restarts.
    """

    def __init__(self) -> None:
        self._at = 0  # of the last observe, in nanoseconds
        self._jobs: Dict[str, _Job] = {}

    def observe(self, now: float, jobs: Any, resizing: Collection[str] = ()) -> None:
        """Updates the times from the nodes of all jobs that have not completed, pb.Job messages. Jobs
        that are not listed are forgotten. It reads id, current_nodes, current_node_type and
        training_time, which shows that a job without nodes has started before. resizing has the ids of
        the jobs whose resize is in progress: their restart counts once the resize is carried out."""
        at = round(now * 1e9)
        elapsed, known = max(0, at - self._at), self._jobs
        self._at, self._jobs = at, {}
        for message in jobs:
            nodes, node_type = message.current_nodes, message.current_node_type
            trained = message.training_time.ToNanoseconds() > 0
            job = known.get(message.id) or _Job(nodes, node_type, trained, ())
            since, started = job.since, job.started
            if job.nodes > 0:
                since = tuple(min(time + elapsed, MAX_TIME) for time in since)
            if message.id in resizing:
                self._jobs[message.id] = job._replace(since=since)
                continue
            if nodes > 0 and started and (nodes, node_type) != job[:2]:
                since = (0, *since[: MAX_RECENT_RESTARTS - 1])
            self._jobs[message.id] = _Job(nodes, node_type, started or nodes > 0, since)

    def recent(self, job_id: str) -> List[float]:
        """Returns the recent_restarts of a job, for message()."""
        return [time / 1e9 for time in self._jobs[job_id].since] if job_id in self._jobs else []

    def to_json(self) -> str:
        """Returns the state, to keep it over restarts of the scheduler."""
        jobs = {job_id: job._asdict() for job_id, job in self._jobs.items()}
        return json.dumps({"at": self._at, "jobs": jobs})

    @classmethod
    def from_json(cls, text: str) -> "Restarts":
        """Restores a state. The time until the next observe counts as time with the nodes of the
        state. Raises ValueError if the text is not a state."""
        restarts = cls()
        try:
            state = json.loads(text)
            restarts._at, jobs = _integer(state.pop("at"), MAX_TIME), state.pop("jobs")
            if state:
                raise ValueError(f"has the unknown fields {sorted(state)}")
            for job_id, fields in jobs.items():
                job = _Job(**{"node_type": "", "started": False, "since": (), **fields})
                since = [_integer(time, MAX_TIME) for time in job.since]
                if since != sorted(since) or min(since, default=0) < 0 or len(since) > MAX_RECENT_RESTARTS:
                    raise ValueError(
                        f"jobs[{job_id!r}].since: is {since}; "
                        f"must be at most {MAX_RECENT_RESTARTS} ascending times"
                    )
                _integer(job.nodes, 2**31 - 1)
                if not isinstance(job.node_type, str) or not isinstance(job.started, bool):
                    raise TypeError(f"jobs[{job_id!r}]: is {fields}; node_type must be a text, started a bool")
                restarts._jobs[job_id] = job._replace(since=tuple(since))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"parse state of restarts: {error!r}") from None
        return restarts
