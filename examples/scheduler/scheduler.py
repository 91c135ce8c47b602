#!/usr/bin/env python3
"""A whole scheduler loop around elastalloc, on a toy cluster in simulated time.

    PYTHONPATH=$(echo bin/elastalloc-*.whl) /usr/bin/python3 examples/scheduler/scheduler.py

/usr/bin/python3 has Debian's grpcio; in a virtual environment, pip install the wheel.

Cluster is what a real cluster does by itself; Scheduler is what you write. docs/integrate.md
explains it step by step; main.go is the same in Go.
"""

import argparse
import random
import statistics
import sys
from typing import Optional

import grpc

from elastalloc import Client, pb, steps
from elastalloc.eta import Estimator, speed

NODES = 32
DECIDE_EVERY = 300  # seconds
RESTART = 60  # seconds that a job needs to go on after its nodes changed
HALF_LIFE = 120  # seconds after which half of a measured rate is new


class Job:
    def __init__(self, number: int, now: int, rng: random.Random) -> None:
        self.id = f"job-{number:03d}"
        self.submitted = now
        self.asked = 2 ** rng.randrange(4)
        self.nodes = 0
        self.trained = 0
        self.restarting = 0
        # What only the cluster knows: the speed on one node and how well the job scales.
        self.speed, self.efficiency = rng.uniform(5, 20), rng.uniform(0.7, 0.9)
        self.steps_left = self.speed * rng.expovariate(1 / 14400)
        # What the job reports: the steps of the last second.
        self.reported = 0.0
        # What the user guesses, wrong by a factor of up to 2: seconds on what was asked.
        alone = self.steps_left / self.rate(self.asked)
        self.guess = alone * 2 ** rng.uniform(-1, 1)

    def rate(self, nodes: int) -> float:
        return self.speed * nodes * self.efficiency ** (nodes.bit_length() - 1)


class Cluster:
    """Runs jobs, second by second. It refuses to give more nodes than there are."""

    def __init__(self, jobs: int, seed: int) -> None:
        self.now, self.jobs, self.ended = 0, {}, []
        self._rng, self._coming, self._number = random.Random(seed), jobs, 0

    def tick(self) -> bool:
        """Lets a second pass, and returns whether a job came or ended."""
        self.now += 1
        event = False
        for job in list(self.jobs.values()):
            job.reported = 0.0
            if job.nodes == 0:
                continue
            job.trained += 1
            if job.restarting > 0:
                job.restarting -= 1
                continue
            job.reported = job.rate(job.nodes)
            job.steps_left -= job.reported
            if job.steps_left <= 0:
                self.ended.append(self.now - job.submitted)
                del self.jobs[job.id]
                event = True
        if self._number < self._coming and self._rng.random() < 1 / 600:
            self._number += 1
            job = Job(self._number, self.now, self._rng)
            self.jobs[job.id] = job
            event = True
        return event

    def done(self) -> bool:
        return self._number == self._coming and not self.jobs

    def idle(self) -> int:
        return NODES - sum(job.nodes for job in self.jobs.values())

    def resize(self, job_id: str, nodes: int) -> None:
        job = self.jobs[job_id]
        if nodes - job.nodes > self.idle():
            sys.exit(f"{job_id} would get more nodes than are idle")
        if job.trained > 0:
            job.restarting = RESTART
        job.nodes = nodes


class Scheduler:
    def __init__(self, cluster: Cluster, client: Optional[Client]) -> None:
        self.cluster, self.client = cluster, client
        self.rates = {}  # by job: smoothed steps a second, and the nodes they are on
        self.work = {}  # done by each job, in seconds on one node
        self.estimator = Estimator()
        self.changes = self.failed = 0
        self.down = False  # The last call had no answer.

    def measure(self) -> None:
        """Smooths what the jobs report: steps a second, on the nodes that they hold. Adds up
        the work that they do, and learns from what those that ended have done."""
        for job_id in self.work.keys() - self.cluster.jobs.keys():
            self.estimator.ended(self.work.pop(job_id))
        for job in self.cluster.jobs.values():
            if job.reported == 0:
                continue  # It restarts; what was measured before still holds.
            self.work[job.id] = self.work.get(job.id, 0) + speed(job.nodes)
            rate, nodes = self.rates.get(job.id, (job.reported, job.nodes))
            if nodes != job.nodes:
                rate = job.reported  # Another size, a new measurement.
            new = 1 - 0.5 ** (1 / HALF_LIFE)
            self.rates[job.id] = (rate + new * (job.reported - rate), job.nodes)

    def snapshot(self) -> pb.Snapshot:
        now = self.cluster.now
        snapshot = pb.Snapshot(id=f"second-{now}", total_nodes=NODES)
        for job in self.cluster.jobs.values():  # in the order of submission
            told = snapshot.jobs.add(id=job.id, current_nodes=job.nodes)
            done = self.work.get(job.id, 0)
            known = {"told": job.guess * speed(job.asked), "work_done": done}
            if job.id in self.rates:
                rate, nodes = self.rates[job.id]
                known |= {"steps_left": job.steps_left, "seconds_per_step": 1 / rate, "nodes": nodes}
            # On the nodes it was measured on; the server converts it.
            self.estimator.estimate(**known).tell(told)
            told.work_done.FromMilliseconds(round(1000 * done))
            told.training_time.FromSeconds(job.trained)
            told.waiting_time.FromSeconds(now - job.submitted - job.trained)
            told.restart_time.FromSeconds(RESTART)
        return snapshot

    def decide(self) -> None:
        """All jobs are up for change."""
        options = pb.AllocateOptions(
            objective=pb.OBJECTIVE_TOTAL_TIME,
            admission=pb.ADMISSION_START_FIRST,
            bad_jobs=pb.BAD_JOBS_HOLD,
        )
        self.carry_out(lambda: self.client.allocate(self.snapshot(), options))

    def fill(self) -> None:
        """When a job came or ended and changes are dear: idle nodes go to the queue."""
        self.carry_out(lambda: self.client.fill_idle(self.snapshot()))

    def carry_out(self, ask) -> None:
        try:
            response = ask()
        except grpc.RpcError as error:
            self.failed += 1
            if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                # A bug of this program, and it stays: say so every time.
                print(f"the request is wrong: {error.details()}", file=sys.stderr)
            elif not self.down:
                print(f"no decision: {error.code().name}", file=sys.stderr)
                self.down = True
            self.first_fit()
            return
        if self.down:
            print("decisions again", file=sys.stderr)
            self.down = False
        for step in steps(response):
            # A job may have ended since; a real resize may fail. Leave out the rest then.
            if step.job_id not in self.cluster.jobs:
                break
            self.cluster.resize(step.job_id, step.nodes)
            self.changes += 1

    def first_fit(self) -> None:
        """Without a decision: no job loses nodes, and the queue starts on what is idle."""
        for job in self.cluster.jobs.values():
            if job.nodes == 0:
                if job.asked > self.cluster.idle():
                    break
                self.cluster.resize(job.id, job.asked)
                self.changes += 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="localhost:50051", help="empty: none, to compare")
    parser.add_argument(
        "--at-events",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="decide when a job came or ended, too, in place of FillIdle",
    )
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    cluster = Cluster(arguments.jobs, arguments.seed)
    client = Client(arguments.server, timeout=5) if arguments.server else None
    scheduler = Scheduler(cluster, client)
    while not cluster.done():
        event = cluster.tick()  # A real loop sleeps here.
        scheduler.measure()
        if not cluster.jobs:
            continue
        if client is None:
            scheduler.first_fit()
        elif cluster.now % DECIDE_EVERY == 0 or event and arguments.at_events:
            scheduler.decide()
        elif event:
            scheduler.fill()
    if client:
        client.close()
    print(
        f"{len(cluster.ended)} jobs took {statistics.mean(cluster.ended) / 60:.1f} min on average, "
        f"with {scheduler.changes} changes of nodes; {scheduler.failed} calls failed"
    )


if __name__ == "__main__":
    main()
