"""The jobs of a testbed, and the trace that describes them to the simulator."""

import csv
import dataclasses
import json
import math
import random
from typing import Any, Dict, List, Sequence, Tuple

# Seconds that elastalloc and the simulator see per second of the testbed. Jobs of seconds stand for jobs of hours, so
# that the defaults of elastalloc keep their meaning.
SCALE = 180
FAST, SLOW = "fast", "slow"  # node types of a pool with slow nodes; otherwise the type of all nodes is ""

StepTimes = Dict[Tuple[str, int], float]


@dataclasses.dataclass(frozen=True)
class Model:
    """What is known of a model. Times are in seconds."""

    name: str
    step_s: Dict[int, float]  # time of a step by nodes; with node types, on fast ones
    load_s: float  # from the start of the processes to the first step
    save_s: float  # from the end of the last step to the end of the processes
    examples: int = 0  # per micro-batch; only the torch variant has examples
    slow: float = 1.0  # time of a step on slow nodes, as a multiple of the time on fast ones

    def restart_s(self) -> float:
        """Returns the restart time for the simulator. It charges a job for each start and each resize. A first start
        has no stop and a pause has no start, so half of the stop counts."""
        return self.load_s + self.save_s / 2

    def times(self, types: Sequence[str]) -> StepTimes:
        """Returns the time of a step by node type and nodes."""
        return {(t, size): s * (self.slow if t == SLOW else 1.0) for t in types for size, s in self.step_s.items()}

    def speeds(self) -> List[float]:
        """Returns the speed on each size relative to one node."""
        return [self.step_s[1] / self.step_s[size] for size in sorted(self.step_s)]


@dataclasses.dataclass(frozen=True)
class Job:
    """A job of a testbed. It is submitted submit_s seconds after the begin."""

    id: str
    submit_s: float
    model: Model
    requested: int
    steps: int
    ignores_sigterm: bool = False

    def sizes(self) -> List[int]:
        """Returns the legal numbers of nodes, ascending."""
        return sorted(self.model.step_s)

    def work_s(self, steps: int) -> float:
        """Returns the time of a number of steps on one node."""
        return steps * self.model.step_s[1]


def sizes(nodes: int) -> List[int]:
    """Returns the powers of two up to a number of nodes, at most 16."""
    return [1 << n for n in range(5) if 1 << n <= nodes]


def plain_models(nodes: int) -> List[Model]:
    """Returns the models of the plain variant: a part of each step is serial, so speeds grow slower than nodes."""
    parameters = {"mlp": (0.02, 0.16, 1.3), "cnn": (0.03, 0.16, 2.0), "transformer": (0.01, 0.20, 4.0)}
    return [
        Model(name, {k: serial + parallel / k for k in sizes(nodes)}, load_s=0.5, save_s=0.05, slow=slow)
        for name, (serial, parallel, slow) in parameters.items()
    ]


def read_models(path: str) -> List[Model]:
    """Reads the models that calibrate has written."""
    with open(path) as file:
        models = json.load(file)
    return [Model(**{**m, "step_s": {int(k): s for k, s in m["step_s"].items()}}) for m in models]


def write_models(models: List[Model], path: str) -> None:
    """Writes models for read_models."""
    with open(path, "w") as file:
        json.dump([dataclasses.asdict(m) for m in models], file, indent=1)


def generate(models: List[Model], count: int, nodes: int, seed: int, load: float = 0.9) -> List[Job]:
    """Generates jobs of 7 to 55 s on one node. load is the share of the pool that they need, if none is resized and
    speeds are ideal, in the time of their submissions."""
    rng = random.Random(seed)
    jobs: List[Job] = []
    work = [min(55.0, max(7.0, 16 * math.exp(rng.gauss(0, 0.8)))) for _ in range(count)]
    gap = sum(work) / nodes / load / max(1, count - 1)
    at = 0.0
    for number, seconds in enumerate(work):
        model = rng.choice(models)
        requested = rng.choice([k for k in sorted(model.step_s) if k <= max(1, nodes // 2)])
        jobs.append(Job(f"job-{number:02}", round(at, 2), model, requested, max(2, round(seconds / model.step_s[1]))))
        at += rng.expovariate(1 / gap)
    return jobs


def write_trace(jobs: List[Job], path: str, types: Sequence[str], measured: Dict[str, Dict[str, Any]]) -> None:
    """Writes the trace of jobs. measured may have other values of step_s, by node type and nodes, and of restart_s, by
    job id. With several node types, write_speeds writes the speeds."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        columns = ["job_id", "submit_s", "duration_s", "gpus", "allowed_nodes", "restart_s"]
        writer.writerow(columns + (["speeds"] if len(types) == 1 else ["application", "work_s"]))
        for job in sorted(jobs, key=lambda job: job.submit_s):
            known = measured.get(job.id, {})
            step_s = known.get("step_s", job.model.times(types))
            row = [
                job.id,
                round(SCALE * job.submit_s),
                round(SCALE * job.steps * step_s[types[0], job.requested], 3),
                job.requested,
                " ".join(map(str, job.sizes())),
                round(SCALE * known.get("restart_s", job.model.restart_s())),
            ]
            if len(types) == 1:
                row.append(" ".join(f"{step_s[types[0], 1] / step_s[types[0], size]:.6g}" for size in job.sizes()))
            else:
                row += [job.id, round(SCALE * job.steps * step_s[types[0], 1], 3)]
            writer.writerow(row)


def write_speeds(jobs: List[Job], path: str, types: Sequence[str], measured: Dict[str, Dict[str, Any]]) -> None:
    """Writes the speeds of jobs by node type, relative to one node of the first type."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["application", "node_type", "nodes", "speed"])
        for job in jobs:
            step_s = measured.get(job.id, {}).get("step_s", job.model.times(types))
            for t in types:
                for size in job.sizes():
                    writer.writerow([job.id, t, size, f"{step_s[types[0], 1] / step_s[t, size]:.6g}"])
