"""A worker of a job: one process on one node. A job on k nodes has k workers, the ranks 0 to k-1.

A step consists of 16 micro-batches whose data depend on the step and the index only. Rank r computes those with
index % world == r, so the result of a training does not depend on the number of nodes in the course of it. One
all-reduce per step adds gradients, loss and a stop flag, so all ranks stop after the same step.

SIGTERM terminates a worker at once before its training, and after the current step in its training. Rank 0 then
saves a checkpoint. Rank 0 reports what happens by datagram to the scheduler. SIGUSR1 writes the stacks of a worker to its
log, to find out why it makes no progress.
"""

import faulthandler
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time
import zlib
from typing import Any, Dict, List, Optional, Tuple

MICRO_BATCHES = 16
SLOT_IN_USE = 3  # exit status of a worker whose slot another process uses


class Reports:
    """Sends reports to the scheduler, as JSON datagrams."""

    def __init__(self, spec: Dict[str, Any]) -> None:
        self._spec = spec
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.connect(spec["reports"])

    def send(self, event: str, wait: bool = True, **fields: Any) -> None:
        """Sends a report. Without wait, it is discarded if the scheduler is busy."""
        if self._spec["rank"] != 0:
            return
        report = {"job": self._spec["job"], "attempt": self._spec["attempt"], "event": event, **fields}
        try:
            self._socket.send(json.dumps(report).encode(), 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass


class PlainGroup:
    """Adds integers over the ranks, through a Unix socket of rank 0."""

    def __init__(self, rank: int, world: int, rendezvous: str) -> None:
        self._peers: List[socket.socket] = []
        self._root = rank == 0
        if world == 1:
            return
        if rank == 0:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(rendezvous + ".new")
                listener.listen(world)
                os.rename(rendezvous + ".new", rendezvous)  # Other ranks connect only once it listens.
                self._peers = [listener.accept()[0] for _ in range(world - 1)]
            return
        peer = socket.socket(socket.AF_UNIX)
        while True:
            try:
                peer.connect(rendezvous)
                break
            except FileNotFoundError:
                time.sleep(0.005)
        self._peers = [peer]

    def all_reduce(self, values: List[int]) -> List[int]:
        """Returns the sums over all ranks. It raises ConnectionError if another rank has exited."""
        layout = struct.Struct(f"{len(values)}q")
        if not self._root:
            self._peers[0].sendall(layout.pack(*values))
        received = [layout.unpack(_receive(peer, layout.size)) for peer in self._peers]
        if not self._root:
            return list(received[0])
        sums = [sum(column) for column in zip(values, *received)]
        for peer in self._peers:
            peer.sendall(layout.pack(*sums))
        return sums

    def close(self) -> None:
        """Closes the connections. The all_reduce of other ranks fails then."""
        for peer in self._peers:
            peer.close()


def _receive(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more:
            raise ConnectionError("another rank has exited")
        data += more
    return data


def plain_data(step: int, index: int) -> int:
    """Returns the data of a micro-batch of the plain variant."""
    return zlib.crc32(f"{step}/{index}".encode())


class PlainModel:
    """Sleeps for the time of each step and adds up the data of all micro-batches. Its result is correct only if every
    micro-batch of every step counts exactly once.

    Each sleep is until a time since the first step, so late wake-ups on a busy machine do not add up.
    """

    def __init__(self, spec: Dict[str, Any], saved: Optional[Dict[str, Any]]) -> None:
        self._spec, self._sum = spec, saved["sum"] if saved else 0
        sleep_until(spec["spawned"] + spec["load_s"])
        self._group = PlainGroup(spec["rank"], spec["world"], spec["rendezvous"])
        self._next: Optional[float] = None

    def step(self, step: int, stop: bool) -> Tuple[float, bool]:
        """Computes a step, and returns its loss and whether a rank is to stop."""
        rank, world = self._spec["rank"], self._spec["world"]
        self._next = (self._next or time.monotonic()) + self._spec["step_s"]
        mine = sum(plain_data(step, index) for index in range(rank, MICRO_BATCHES, world))
        sleep_until(self._next)
        added, stopping = self._group.all_reduce([mine, int(stop)])
        self._sum += added
        return 1 / (step + 1), stopping > 0

    def state(self) -> Dict[str, Any]:
        """Returns what the checkpoint contains."""
        return {"sum": self._sum}


def sleep_until(at: float) -> None:
    """Sleeps until a monotonic time."""
    time.sleep(max(0.0, at - time.monotonic()))


def load(spec: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Returns the last checkpoint of a job, None if there is none."""
    try:
        with open(spec["checkpoint"]) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def save(spec: Dict[str, Any], state: Dict[str, Any]) -> None:
    """Replaces the checkpoint of a job."""
    new = spec["checkpoint"] + ".new"
    with open(new, "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, spec["checkpoint"])


def take_slot(spec: Dict[str, Any]) -> int:
    """Locks the file of the slot until the process is gone. The kernel keeps the lock, so two processes on one slot
    are found even if the scheduler has lost count. It exits if another process has the lock."""
    file = os.open(spec["lock"], os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"{spec['lock']} is in use by another process", file=sys.stderr, flush=True)
        os._exit(SLOT_IN_USE)
    return file


def run(spec: Dict[str, Any]) -> None:
    """Runs a worker. A job has completed if its checkpoint is at its last step."""
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if spec["ignores_sigterm"] else signal.SIG_DFL)
    take_slot(spec)
    model: Any
    saved = load(spec)
    if spec["variant"] == "torch":
        # Before torch is imported, which counts the processors.
        os.environ["OMP_NUM_THREADS"] = "1"
        os.sched_setaffinity(0, {spec["core"]})
        from testbed.models import TorchModel

        model = TorchModel(spec, saved)
    else:
        model = PlainModel(spec, saved)
    stopped = []
    if not spec["ignores_sigterm"]:
        signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    reports = Reports(spec)
    step, loss, stop = (saved["step"], saved["loss"], False) if saved else (0, 0.0, False)
    reports.send("begin", step=step, at=time.monotonic())
    while step < spec["steps"] and not stop:
        loss, stop = model.step(step, bool(stopped))
        step += 1
        reports.send("step", wait=False, step=step, at=time.monotonic())
        every = spec["checkpoint_steps"]
        if spec["rank"] == 0 and every and step % every == 0 and not stop:
            save(spec, {"step": step, "loss": loss, **model.state()})
    ended = time.monotonic()
    reports.send("end", step=step, at=ended)
    if spec["rank"] == 0:
        save(spec, {"step": step, "loss": loss, **model.state()})
        if spec["variant"] == "plain":
            sleep_until(ended + spec["save_s"])


if __name__ == "__main__":  # With --start exec.
    run(json.loads(sys.argv[1]))
