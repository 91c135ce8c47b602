#!/usr/bin/env python3
"""A whole scheduler loop around elastalloc, on a toy cluster in simulated time.

    PYTHONPATH=$(echo bin/elastalloc-*.whl) /usr/bin/python3 examples/scheduler/scheduler.py

/usr/bin/python3 has Debian's grpcio; in a virtual environment, pip install the wheel.

Cluster is what a real cluster does by itself; Scheduler is what you write. docs/schedulers/integrate.md
explains it step by step; main.go is the same in Go.
"""

import argparse
import random
import statistics
import sys
from typing import Optional

import grpc

from elastalloc import Client, Plan, PoolError, message, pb
from elastalloc.eta import Estimator, speed

NODES = 32
DECIDE_EVERY = 300  # seconds
TURN_EVERY = 5  # seconds
RESTART = 60  # seconds that a job needs to go on after its nodes changed
GRACE = 10  # seconds until the nodes that a job leaves are free
PATIENCE = 120  # seconds without a step, beside a restart, after which a job hangs
HALF_LIFE = 120  # seconds after which half of a measured rate is new


class Job:
    def __init__(self, number: int, now: int, rng: random.Random) -> None:
        self.id = f"job-{number:03d}"
        self.submitted = now
        self.asked = 2 ** rng.randrange(4)
        self.nodes = self.leaving = 0
        self.gone = 0  # when the nodes that it leaves are free
        self.trained = 0
        self.restarting = 0
        # What only the cluster knows: the speed on one node and how well the job scales.
        self.speed, self.efficiency = rng.uniform(5, 20), rng.uniform(0.7, 0.9)
        self.steps_left = self.speed * rng.expovariate(1 / 14400)
        # How many seconds a hung job makes no step, at half of its work.
        self.half, self.stall = self.steps_left / 2, 0 if number % 8 else 1800
        # What the job reports: the steps of the last second.
        self.reported = 0.0
        # What the user guesses, wrong by a factor of up to 2: seconds on what was asked.
        alone = self.steps_left / self.rate(self.asked)
        self.guess = alone * 2 ** rng.uniform(-1, 1)

    def rate(self, nodes: int) -> float:
        return self.speed * nodes * self.efficiency ** (nodes.bit_length() - 1)


class Cluster:
    """Runs jobs, second by second. It refuses to give more nodes than there are, and every
    twentieth resize fails."""

    def __init__(self, jobs: int, seed: int) -> None:
        self.now, self.jobs, self.ended = 0, {}, []
        self._rng, self._coming, self._number = random.Random(seed), jobs, 0
        self._resizes = 0

    def tick(self) -> None:
        """Lets a second pass."""
        self.now += 1
        for job in list(self.jobs.values()):
            job.reported = 0.0
            if self.now >= job.gone:
                job.leaving = 0
            if job.nodes == 0:
                continue
            job.trained += 1
            if job.restarting > 0:
                job.restarting -= 1
                continue
            if job.steps_left < job.half and job.stall > 0:
                job.stall -= 1
                continue
            job.reported = job.rate(job.nodes)
            job.steps_left -= job.reported
            if job.steps_left <= 0:
                self.ended.append(self.now - job.submitted)
                del self.jobs[job.id]
        if self._number < self._coming and self._rng.random() < 1 / 600:
            self._number += 1
            job = Job(self._number, self.now, self._rng)
            self.jobs[job.id] = job

    def done(self) -> bool:
        return self._number == self._coming and not self.jobs

    def resize(self, job_id: str, nodes: int) -> bool:
        """Gives a job other nodes, and returns whether that went well."""
        job = self.jobs[job_id]
        if nodes - job.nodes > NODES - sum(j.nodes + j.leaving for j in self.jobs.values()):
            sys.exit(f"{job_id} would get more nodes than are idle")
        self._resizes += 1
        if self._resizes % 20 == 0:
            return False
        if job.trained > 0:
            job.restarting = RESTART
        job.leaving, job.gone = max(0, job.nodes - nodes), self.now + GRACE
        job.nodes = nodes
        return True


class Scheduler:
    def __init__(self, cluster: Cluster, client: Optional[Client], at_events: bool) -> None:
        self.cluster, self.client, self.at_events = cluster, client, at_events
        self.plan = Plan()
        self.decided = 0  # when all jobs were last up for change
        self.rates = {}  # by job: smoothed steps a second, and the nodes they are on
        self.work = {}  # done by each job, in seconds on one node
        self.told = {}  # the same, as its user guessed all of it
        self.silent = {}  # seconds since the last step of each job with nodes
        self.named = set()  # jobs that a person should look at
        self.estimator = Estimator()
        self.changes = self.failed = 0
        self.down = False  # The last call had no answer.

    def measure(self) -> None:
        """Smooths what the jobs report: steps a second, on the nodes that they hold. Adds up
        the work that they do, and learns from what those that ended have done."""
        for job_id in self.work.keys() - self.cluster.jobs.keys():
            self.estimator.ended(self.work.pop(job_id), told=self.told.pop(job_id))
        for job in self.cluster.jobs.values():
            if job.reported == 0:
                if job.nodes:
                    self.silent[job.id] = self.silent.get(job.id, 0) + 1
                continue  # It restarts; what was measured before still holds.
            self.silent[job.id] = 0
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
            told = snapshot.jobs.add(id=job.id, current_nodes=job.nodes + job.leaving)
            done = self.work.get(job.id, 0)
            self.told[job.id] = job.guess * speed(job.asked)
            known = {"told": self.told[job.id], "work_done": done}
            hung = self.silent.get(job.id, 0) > RESTART + PATIENCE
            if hung and job.nodes:
                told.max_nodes = job.nodes
            if job.id in self.rates and not hung:
                rate, nodes = self.rates[job.id]
                known |= {"steps_left": job.steps_left, "seconds_per_step": 1 / rate, "nodes": nodes}
            # On the nodes it was measured on; the server converts it.
            estimate = self.estimator.estimate(**known)
            estimate.tell(told)
            if (hung or estimate.overrun >= 2) and job.id not in self.named:
                self.named.add(job.id)
                why = "hangs" if hung else "has done twice the work that was told"
                print(f"look at {job.id}: it {why}", file=sys.stderr)
            told.training_time.FromSeconds(job.trained)
            told.waiting_time.FromSeconds(now - job.submitted - job.trained)
            told.restart_time.FromSeconds(RESTART)
        return snapshot

    def turn(self) -> None:
        """Decides where that is due, and begins the steps that can be begun."""
        now = self.cluster.now
        try:
            steps, warnings = self.plan.turn(now, self.snapshot(), self.decide)
        except PoolError as error:
            print(error, file=sys.stderr)  # Jobs keep their nodes.
            return
        for warning in warnings:
            print(warning.message, file=sys.stderr)
        for step in steps:
            if self.cluster.resize(step.job_id, step.nodes):
                self.changes += 1
            else:
                self.plan.failed(now, step.job_id)

    def decide(self, snapshot: pb.Snapshot):
        """Decides on a snapshot. Where changes are dear, those at events only give idle nodes to
        the queue. Without an answer the queue starts first come, first served."""
        if self.client is None:
            return self.first_fit(snapshot)
        options = pb.AllocateOptions(
            objective=pb.OBJECTIVE_TOTAL_TIME,
            admission=pb.ADMISSION_START_FIRST,
            bad_jobs=pb.BAD_JOBS_HOLD,
        )
        try:
            if self.at_events or self.cluster.now - self.decided >= DECIDE_EVERY:
                self.decided = self.cluster.now
                response = self.client.allocate(snapshot, options)
            else:
                response = self.client.fill_idle(snapshot)
        except grpc.RpcError as error:
            self.failed += 1
            if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                # A bug of this program, and it stays: say so every time.
                print(f"the request is wrong: {error.details()}", file=sys.stderr)
            elif not self.down:
                print(f"no decision: {error.code().name}", file=sys.stderr)
                self.down = True
            return self.first_fit(snapshot)
        if self.down:
            print("decisions again", file=sys.stderr)
            self.down = False
        return response

    def first_fit(self, snapshot: pb.Snapshot) -> pb.AllocateResponse:
        """Is a rule of your own: no job loses nodes, and what is idle goes to the queue."""
        idle = snapshot.total_nodes - sum(job.current_nodes for job in snapshot.jobs)
        gets = {job.id: job.current_nodes for job in snapshot.jobs}
        for job_id in [job_id for job_id, nodes in gets.items() if nodes == 0]:
            gets[job_id] = self.cluster.jobs[job_id].asked
            idle -= gets[job_id]
            if idle < 0:
                gets[job_id] = 0
                break
        allocations = [{"job_id": job_id, "nodes": nodes} for job_id, nodes in gets.items()]
        return message(pb.AllocateResponse, allocations=allocations)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="localhost:50051", help="empty: none, to compare")
    parser.add_argument(
        "--at-events",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="decide when a job came or ended, too, instead of FillIdle",
    )
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    cluster = Cluster(arguments.jobs, arguments.seed)
    client = Client(arguments.server, timeout=5) if arguments.server else None
    scheduler = Scheduler(cluster, client, arguments.at_events)
    while not cluster.done():
        for _ in range(TURN_EVERY):  # A real loop sleeps here.
            cluster.tick()
            scheduler.measure()
        scheduler.turn()
    if client:
        client.close()
    print(
        f"{len(cluster.ended)} jobs took {statistics.mean(cluster.ended) / 60:.1f} min on average, "
        f"with {scheduler.changes} changes of nodes; {scheduler.failed} calls failed"
    )


if __name__ == "__main__":
    main()
