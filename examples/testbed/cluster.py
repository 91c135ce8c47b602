"""The processes of a testbed: starts and stops the workers of jobs, and measures it."""

import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Set

from testbed import worker
from testbed.jobs import FAST, SLOW, Job

# Steps between two checkpoints, by variant. A job that does not stop in its grace period loses the steps since the last one.
CHECKPOINT_STEPS = {"plain": 0, "torch": 10}
MAX_FAILURES = 3  # consecutive attempts of a job in which workers fail before the first step


@dataclasses.dataclass
class Attempt:
    """The workers of a job between a start and a stop. Times are monotonic, None until known."""

    number: int
    slots: List[int]
    spawned: float
    first_step: int = 0
    begun: Optional[float] = None  # begin of the first step
    last_step: int = 0
    last_at: Optional[float] = None  # end of the last reported step
    ended: Optional[float] = None  # end of the last step, before the save
    stopped: Optional[float] = None  # time of SIGTERM
    killed: bool = False  # whether SIGKILL was necessary
    gone: Optional[float] = None  # when all processes were gone
    node_type: str = ""  # of the slots
    exits: List[int] = dataclasses.field(default_factory=list)
    running: Dict[int, int] = dataclasses.field(default_factory=dict)  # slot by id of a worker


class State:
    """A job on the cluster."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.step = 0
        self.attempts: List[Attempt] = []
        self.reserved: Set[int] = set()  # free slots that the job gets once its processes are gone
        self.target: Optional[int] = None  # nodes after the stop in progress; None: the slots are given back

    def current(self) -> Optional[Attempt]:
        """Returns the attempt whose processes are not gone, None if there is none."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].gone is None else None

    def nodes(self) -> int:
        """Returns the number of nodes that the job occupies, including those that it is releasing."""
        attempt = self.current()
        return len(attempt.slots) if attempt else 0


def node_types(nodes: int, slow_nodes: int) -> Dict[str, int]:
    """Returns the number of nodes by type."""
    return {FAST: nodes - slow_nodes, SLOW: slow_nodes} if slow_nodes else {"": nodes}


class Cluster:
    """Runs jobs on the nodes of this machine, which are slots for one process each. Call poll every 20 to 50 ms.

    grace is the time in seconds from SIGTERM to SIGKILL. The last slow_nodes of the nodes are of the type slow, and the
    others of the type fast. By default, there are no types.
    """

    def __init__(
        self, directory: str, nodes: int, variant: str, start: str, grace: float, checkpoint_steps: int, slow_nodes: int = 0
    ) -> None:
        self.directory, self.variant, self.start_by, self.grace = directory, variant, start, grace
        self.checkpoint_steps = checkpoint_steps
        self.free = set(range(nodes))
        self.nodes = nodes
        self.types = node_types(nodes, slow_nodes)
        self.states: Dict[str, State] = {}
        self.peak = 0  # largest number of slots in use at the same time
        self._ids = 0
        self._owners: Dict[int, State] = {}
        self._cores = sorted(os.sched_getaffinity(0))
        self._reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._reports.bind(self._path("reports"))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "testbed.forkserver", variant], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        )
        if self._server.stdout.readline() != b"ready\n":
            raise RuntimeError("the fork server does not start")
        self._pending = b""

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def close(self) -> None:
        """Kills all workers."""
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()
        self._reports.close()

    def add(self, job: Job) -> State:
        """Adds a job without nodes."""
        self.states[job.id] = state = State(job)
        return state

    def type_of(self, slot: int) -> str:
        """Returns the node type of a slot."""
        return SLOW if SLOW in self.types and slot >= self.types[FAST] else next(iter(self.types))

    def resize(self, state: State, nodes: int, node_type: str = "") -> None:
        """Begins to resize a job. It raises AssertionError if the nodes are not free."""
        attempt = state.current()
        more = nodes - (len(attempt.slots) if attempt else 0) - len(state.reserved)
        free = sorted(slot for slot in self.free if nodes and self.type_of(slot) == node_type)
        assert more <= len(free), f"{state.job.id} grows to {nodes} nodes, but {len(free)} are free"
        for slot in free[: max(0, more)]:
            self.free.remove(slot)
            state.reserved.add(slot)
        state.target = nodes
        if attempt:
            self._stop(attempt)
        else:
            self._start(state, [])

    def kill(self, state: State) -> None:
        """Kills all processes of a job. Its nodes are free once they are gone."""
        state.target = None
        attempt = state.current()
        if attempt:
            self._stop(attempt)
            self._kill(attempt)

    def signal(self, worker_id: int, number: int) -> None:
        """Sends a signal to a worker."""
        self._send({"signal": [worker_id, number]})

    def _send(self, line: Dict[str, Any]) -> None:
        self._server.stdin.write(json.dumps(line).encode() + b"\n")
        self._server.stdin.flush()

    def _stop(self, attempt: Attempt) -> None:
        if attempt.stopped is None:
            attempt.stopped = time.monotonic()
            for id in attempt.running:
                self.signal(id, signal.SIGTERM)

    def _kill(self, attempt: Attempt) -> None:
        if not attempt.killed:
            attempt.killed = True
            for id in attempt.running:
                self.signal(id, signal.SIGKILL)

    def _start(self, state: State, kept: List[int]) -> None:
        """Starts the processes of a job on some of the slots that it had and on those that it has reserved."""
        nodes = state.target
        slots = (kept + sorted(state.reserved))[:nodes]
        self.free |= (set(kept) | state.reserved) - set(slots)
        state.reserved, state.target = set(), None
        node_type = self.type_of(slots[0])
        attempt = Attempt(len(state.attempts), slots, time.monotonic(), state.step, last_step=state.step, node_type=node_type)
        state.attempts.append(attempt)
        job, name = state.job, f"{state.job.id}-{attempt.number}"
        for rank, slot in enumerate(slots):
            self._ids += 1
            self._owners[self._ids] = state
            attempt.running[self._ids] = slot
            self._send({"start": {
                "id": self._ids, "job": job.id, "attempt": attempt.number, "rank": rank, "world": nodes,
                "variant": self.variant, "exec": self.start_by == "exec", "model": job.model.name, "examples": job.model.examples,
                "steps": job.steps,
                "step_s": job.model.times(self.types)[node_type, nodes], "load_s": job.model.load_s, "save_s": job.model.save_s,
                "spawned": attempt.spawned, "checkpoint_steps": self.checkpoint_steps,
                "ignores_sigterm": job.ignores_sigterm, "core": self._cores[slot % len(self._cores)], "slot": slot,
                "lock": self._path(f"slot-{slot}"), "reports": self._path("reports"), "rendezvous": self._path(name),
                "checkpoint": self._path(job.id + ".json"), "log": self._path(name + ".log"),
            }})
        self.peak = max(self.peak, self.nodes - len(self.free))

    def poll(self) -> None:
        """Reads reports and exits, kills processes that ignore SIGTERM, and starts jobs whose old processes are gone."""
        while select.select([self._reports], [], [], 0)[0]:
            self._report(json.loads(self._reports.recv(1 << 12)))
        while select.select([self._server.stdout], [], [], 0)[0]:
            data = os.read(self._server.stdout.fileno(), 1 << 16)
            if not data:
                raise RuntimeError("the fork server has exited")
            *lines, self._pending = (self._pending + data).split(b"\n")
            for line in map(json.loads, lines):
                self._exit(line["id"], line["exit"])
        now = time.monotonic()
        for state in self.states.values():
            attempt = state.current()
            if attempt and attempt.stopped is not None and now - attempt.stopped > self.grace:
                self._kill(attempt)

    def _report(self, report: Dict[str, Any]) -> None:
        state = self.states[report["job"]]
        attempt = state.attempts[report["attempt"]]
        if report["event"] == "begin":
            attempt.begun, attempt.first_step = report["at"], report["step"]
        elif report["event"] == "end":
            attempt.ended = report["at"]
        attempt.last_step, attempt.last_at = report["step"], report["at"]
        if attempt.gone is None:
            state.step = report["step"]

    def _exit(self, id: int, status: int) -> None:
        state = self._owners.pop(id)
        attempt = state.current()
        del attempt.running[id]
        attempt.exits.append(status)
        if status == worker.SLOT_IN_USE:
            raise RuntimeError(f"{state.job.id}: two processes use one node; see {self.directory}")
        if status != 0 and attempt.stopped is None:
            self._stop(attempt)  # The job continues only with all its ranks.
        if attempt.running:
            return
        attempt.gone = time.monotonic()
        last = state.attempts[-MAX_FAILURES:]
        if len(last) == MAX_FAILURES and all(max(a.exits) > 0 and a.last_step == a.first_step for a in last):
            with open(self._path(f"{state.job.id}-{attempt.number}.log")) as log:
                raise RuntimeError(f"the workers of {state.job.id} fail {MAX_FAILURES} times before their first step:\n{log.read()}")
        saved = self.saved(state)
        state.step = saved["step"] if saved else 0
        if state.target and state.step < state.job.steps:
            self._start(state, attempt.slots)
        else:
            self.free |= set(attempt.slots) | state.reserved
            state.reserved, state.target = set(), None

    def saved(self, state: State) -> Optional[Dict[str, Any]]:
        """Returns the last checkpoint of a job, None if there is none."""
        return worker.load({"checkpoint": self._path(state.job.id + ".json")})
