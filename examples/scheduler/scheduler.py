#!/usr/bin/env python3
"""A complete scheduler loop around elastalloc, on a toy cluster in simulated time.

    PYTHONPATH=$(echo bin/elastalloc-*.whl) /usr/bin/python3 examples/scheduler/scheduler.py

/usr/bin/python3 has Debian's grpcio; in a virtual environment, pip install the wheel.

Cluster is what a real cluster does by itself, and Scheduler is what you write. docs/schedulers/integrate.md
explains it step by step; main.go is the same in Go.
"""

import argparse
import random
import statistics
import sys
from typing import Dict, Optional

import grpc

from elastalloc import Client, Plan, PoolError, message, pb, placement
from elastalloc.eta import Estimator, speed

NODES = 32  # GPUs: a node of elastalloc is a GPU here
GPUS = 8  # of a machine
PERIOD = 5  # seconds between two reconciliations
RESTART = 60  # seconds that a job needs to continue after a resize or on other machines
GRACE = 10  # seconds until released nodes are free


class Job:
    def __init__(self, number: int, now: int, rng: random.Random) -> None:
        self.id = f"job-{number:03d}"
        self.submitted = now
        self.requested = 2 ** rng.randrange(4)
        self.on: Dict[str, int] = {}  # nodes that it has now, by machine
        # Nodes in addition that it is releasing, until the time released.
        self.releasing: Dict[str, int] = {}
        self.released = 0.0
        self.trained = self.restarting = 0
        self.speed, self.efficiency = rng.uniform(5, 20), rng.uniform(0.7, 0.9)
        self.steps_left = self.speed * rng.expovariate(1 / 14400)
        # The user's estimate of the run time on the requested nodes, wrong by a factor of up to 2.
        self.guess = self.steps_left / self.rate(self.requested) * 2 ** rng.uniform(-1, 1)
        self.work_done = 0.0  # in seconds on one node

    def nodes(self) -> int:
        return sum(self.on.values())

    def occupied(self) -> Dict[str, int]:
        """Returns the nodes that it has or is releasing, by machine."""
        return {m: self.on.get(m, 0) + self.releasing.get(m, 0) for m in {**self.on, **self.releasing}}

    def leave(self, on: Dict[str, int], released: float) -> None:
        """Releases the nodes that it does not keep, at a time."""
        left = {m: n - on.get(m, 0) for m, n in self.occupied().items()}
        self.releasing = {m: n for m, n in left.items() if n > 0}
        self.on, self.released = on, released

    def rate(self, nodes: int) -> float:
        """Returns the steps per second on some nodes."""
        return self.speed * nodes * self.efficiency ** (nodes.bit_length() - 1)


class Cluster:
    """Runs jobs in steps of one second."""

    def __init__(self, jobs: int, seed: int) -> None:
        self.now, self.jobs, self.completed = 0, {}, []
        self._rng, self._coming, self._number = random.Random(seed), jobs, 0
        self._resizes = 0

    def tick(self) -> None:
        """Lets a second pass."""
        self.now += 1
        for job in [*self.jobs.values(), *(job for job, _ in self.completed)]:
            if self.now >= job.released:
                job.releasing = {}
        self.check()
        for job in list(self.jobs.values()):
            if not job.on:
                continue
            job.trained += 1
            if job.restarting > 0:
                job.restarting -= 1
                continue
            rate = job.rate(job.nodes())
            job.steps_left -= rate
            job.work_done += rate / job.rate(1)
            if job.steps_left <= 0:
                job.leave({}, self.now + GRACE)
                self.completed.append((job, self.now - job.submitted))
                del self.jobs[job.id]
        if self._number < self._coming and self._rng.random() < 1 / 600:
            self._number += 1
            job = Job(self._number, self.now, self._rng)
            self.jobs[job.id] = job

    def done(self) -> bool:
        return self._number == self._coming and not self.jobs

    def resize(self, job_id: str, on: Dict[str, int]) -> bool:
        """Changes the nodes of a job, and returns whether it succeeded: every twentieth resize fails.
        Every fiftieth time the job does not release its nodes before it is killed."""
        job = self.jobs[job_id]
        self._resizes += 1
        if self._resizes % 20 == 0:
            return False
        if job.trained > 0:
            job.restarting = RESTART
        job.leave(on, self.now + GRACE)
        if self._resizes % 50 == 49 and job.releasing:
            job.released = float("inf")
        return True

    def kill(self, job_id: str) -> None:
        """Sends SIGTERM to the processes of a job and, after a grace period, SIGKILL."""
        self.jobs[job_id].leave({}, self.now + GRACE)

    def releasing(self) -> Dict[str, int]:
        """Returns the nodes that completed jobs are still releasing, by machine."""
        releasing: Dict[str, int] = {}
        for job, _ in self.completed:
            for machine, nodes in job.releasing.items():
                releasing[machine] = releasing.get(machine, 0) + nodes
        return releasing

    def check(self) -> None:
        """Exits if a machine has more nodes in use and being released than it has."""
        used = self.releasing()
        for job in self.jobs.values():
            for machine, nodes in job.occupied().items():
                used[machine] = used.get(machine, 0) + nodes
                if used[machine] > GPUS:
                    sys.exit(f"{machine} has {used[machine]} nodes in use and being released")


class Scheduler:
    def __init__(self, cluster: Cluster, client: Optional[Client]) -> None:
        self.cluster, self.client = cluster, client
        self.plan, self.estimator = Plan(), Estimator()
        self.learned = 0  # completed jobs that the estimator has seen
        self.changes = self.failed = 0
        self.moves = 0  # pauses of jobs that go to other machines
        self.decided: Dict[str, int] = {}  # nodes of the last decision

    def snapshot(self) -> pb.Snapshot:
        """Describes the cluster, with the jobs in the order of submission."""
        for job, _ in self.cluster.completed[self.learned :]:
            self.estimator.completed(job.work_done, user_estimate=job.guess * speed(job.requested))
        self.learned = len(self.cluster.completed)
        now = self.cluster.now
        nodes = NODES - sum(self.cluster.releasing().values())
        snapshot = pb.Snapshot(id=f"second-{now}", total_nodes=nodes)
        for job in self.cluster.jobs.values():
            described = snapshot.jobs.add(id=job.id, current_nodes=sum(job.occupied().values()))
            known = {"user_estimate": job.guess * speed(job.requested), "work_done": job.work_done}
            if job.on:
                known |= {"steps_left": job.steps_left, "nodes": job.nodes()}
                known["seconds_per_step"] = 1 / job.rate(job.nodes())
            self.estimator.estimate(**known).set_on(described)
            described.training_time.FromSeconds(job.trained)
            described.waiting_time.FromSeconds(now - job.submitted - job.trained)
            described.restart_time.FromSeconds(RESTART)
        return snapshot

    def reconcile(self) -> None:
        """Requests a decision if one is due, and begins the steps that can be begun."""
        now = self.cluster.now
        releasing, machines = self.cluster.releasing(), []
        for n in range(NODES // GPUS):  # Omit machines that failed.
            left = releasing.get(f"machine-{n}", 0)
            machines.append(placement.Node(f"machine-{n}", units=GPUS, free=GPUS - left, releasing=left))
        jobs = [placement.Job(job.id, on=job.occupied()) for job in self.cluster.jobs.values()]
        self.plan.observe_machines(machines, [1, 2, 4, 8, 16], jobs)
        try:
            steps, warnings = self.plan.reconcile(now, self.snapshot(), self.decide)
        except PoolError as error:
            print(error, file=sys.stderr)  # Jobs keep their nodes.
            return
        for warning in warnings:
            print(warning.message, file=sys.stderr)
        for job_id in self.plan.overdue(now):
            self.cluster.kill(job_id)
            self.plan.failed(now, job_id)
        for step in steps:
            if self.cluster.resize(step.job_id, self.plan.on(step.job_id)):
                self.changes += 1
                self.moves += step.nodes == 0 < self.decided.get(step.job_id, 0)
            else:
                self.plan.failed(now, step.job_id)

    def decide(self, snapshot: pb.Snapshot):
        """Returns the decision of the server. If there is none, no job loses nodes."""
        response = self.request(snapshot)
        self.decided = {a.job_id: a.nodes for a in response.allocations}
        return response

    def request(self, snapshot: pb.Snapshot):
        """Requests a decision."""
        if self.client is None:
            return self.first_fit(snapshot)
        try:
            return self.client.decide(snapshot)
        except grpc.RpcError as error:
            self.failed += 1
            print(f"no decision: {error.code().name}: {error.details()}", file=sys.stderr)
            return self.first_fit(snapshot)

    def first_fit(self, snapshot: pb.Snapshot) -> pb.AllocateResponse:
        """Is a rule of your own: idle nodes go to the queue, first come, first served."""
        idle = snapshot.total_nodes - sum(job.current_nodes for job in snapshot.jobs)
        gets = {job.id: job.current_nodes for job in snapshot.jobs}
        for job_id in [job_id for job_id, nodes in gets.items() if nodes == 0]:
            gets[job_id] = self.cluster.jobs[job_id].requested
            idle -= gets[job_id]
            if idle < 0:
                gets[job_id] = 0
                break
        allocations = [{"job_id": job_id, "nodes": nodes} for job_id, nodes in gets.items()]
        return message(pb.AllocateResponse, allocations=allocations)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="localhost:50051", help="empty: first come first served")
    parser.add_argument("--timeout", type=float, default=5, help="seconds to wait for a decision")
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    cluster = Cluster(arguments.jobs, arguments.seed)
    client = Client(arguments.server, timeout=arguments.timeout) if arguments.server else None
    scheduler = Scheduler(cluster, client)
    while not cluster.done():
        for _ in range(PERIOD):  # A real loop sleeps here.
            cluster.tick()
        scheduler.reconcile()
    if client:
        client.close()
    minutes = statistics.mean(time for _, time in cluster.completed) / 60
    print(
        f"{len(cluster.completed)} jobs took {minutes:.1f} min on average, "
        f"with {scheduler.changes} resizes and {scheduler.moves} moves; {scheduler.failed} calls failed"
    )


if __name__ == "__main__":
    main()
