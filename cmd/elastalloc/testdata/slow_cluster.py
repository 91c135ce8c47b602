"""Executes the steps of elastalloc.placement on clusters with slow, failing and lost releases: no machine
ever has more units in use and being released than it has. Without faults all jobs reach their units.

    python3 cmd/elastalloc/testdata/slow_cluster.py [RUNS]
"""

import random
import sys
from typing import Dict, List

from elastalloc import placement

CHAINS = [(8, [1, 2, 4, 8]), (8, [1, 2, 4, 8, 16, 32]), (8, [2, 8, 24]), (4, [1, 4, 8, 16]), (1, [1, 2, 4]), (6, [1, 2, 4])]


class Release:
    """Units of a machine that a job has left."""

    def __init__(self, job: str, node: str, units: int, seconds: int, lost: bool) -> None:
        self.job, self.node, self.units, self.seconds, self.lost = job, node, units, seconds, lost


class Cluster:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        machine, self.sizes = rng.choice(CHAINS)
        self.nodes = []
        for n in range(rng.randint(1, 7)):
            units = rng.choice([machine, machine, self.sizes[-1]])
            free = units if rng.random() < 0.7 else rng.randint(0, units)
            self.nodes.append(placement.Node(f"n{n}", rng.choice(["", "x"]), units, free))
        self.jobs = {
            f"j{n}": placement.Job(f"j{n}", piece=rng.choice([0, 0, *self.sizes]), on={}) for n in range(rng.randint(1, 9))
        }
        self.releases: List[Release] = []
        self.steps: List[placement.Step] = []
        self.begun = set()
        self.executed = 0

    def decide(self, change: bool) -> None:
        """Changes the units of random jobs, as far as all can be placed, and requests the steps."""
        for job in self.jobs.values():
            if change and self.rng.random() < 0.4:
                units = self.rng.choice([0, 1, 1, 2]) * self.rng.choice(self.sizes)
                self.jobs[job.id] = job._replace(units=units)
        while True:
            try:
                placement.place(self.nodes, self.sizes, list(self.jobs.values()))
                break
            except (placement.LimitError, placement.NotNestedError):
                job = self.rng.choice(list(self.jobs.values()))
                self.jobs[job.id] = job._replace(units=0)
        releasing: Dict[str, int] = {}
        for r in self.releases:
            releasing[r.node] = releasing.get(r.node, 0) + r.units
        nodes = [
            n._replace(free=n.free - releasing.get(n.id, 0), releasing=releasing.get(n.id, 0)) for n in self.nodes
        ]
        self.steps = placement.steps(nodes, self.sizes, list(self.jobs.values()))
        self.begun = set()

    def tick(self, faults: bool) -> None:
        """Lets a second pass: steps begin whose jobs in after have released their units."""
        for r in self.releases:
            r.seconds -= 1
        self.releases = [r for r in self.releases if r.seconds > 0 or r.lost and faults]
        waiting = []
        for step in self.steps:
            leaving = {r.job for r in self.releases}
            if any(job not in self.begun or job in leaving for job in step.after):
                waiting.append(step)
            elif not faults or self.rng.random() > 0.2:  # Otherwise it fails.
                job = self.jobs[step.job]
                assert step.do != "start" or not job.on, (step, job)
                for node, units in job.on.items():
                    left = units - step.on.get(node, 0)
                    if left > 0:
                        lost = faults and self.rng.random() < 0.1
                        self.releases.append(Release(job.id, node, left, self.rng.randint(1, 5), lost))
                self.jobs[job.id] = job._replace(on=step.on)
                self.begun.add(job.id)
                self.executed += 1
        self.steps = waiting
        used = {n.id: 0 for n in self.nodes}
        for node, units in [item for job in self.jobs.values() for item in job.on.items()]:
            used[node] += units
        for r in self.releases:
            used[r.node] += r.units
        for n in self.nodes:
            assert used[n.id] <= n.free, (n, used[n.id])


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    executed = 0
    for run in range(runs):
        cluster = Cluster(random.Random(run))
        for second in range(80):
            if second % 20 == 0 or cluster.rng.random() < 0.1:
                cluster.decide(True)
            cluster.tick(True)
        cluster.decide(True)
        for _ in range(20 * len(cluster.jobs)):
            cluster.tick(False)
            if not cluster.steps and not cluster.releases:
                cluster.decide(False)
        for job in cluster.jobs.values():
            assert sum(job.on.values()) == job.units, (run, job)
        executed += cluster.executed
    print(f"{runs} runs, {executed} steps")


if __name__ == "__main__":
    main()
