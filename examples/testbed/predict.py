"""Predicts job completion times with `elastalloc-lab simulate`, and measures what the simulator needs."""

import csv
import os
import statistics
import subprocess
import tempfile
from typing import Any, Dict, List, Sequence

from testbed.jobs import SCALE, Job, write_speeds, write_trace
from testbed.scheduler import Result


def predict(
    lab: str, jobs: List[Job], types: Dict[str, int], policies: Sequence[str], measured: Dict[str, Dict[str, Any]]
) -> Dict[str, Dict[str, float]]:
    """Returns the simulated job completion time in seconds, by policy and job id, on a number of nodes by type. measured
    is that of write_trace."""
    with tempfile.TemporaryDirectory(prefix="testbed-") as directory:
        trace, out = os.path.join(directory, "trace.csv"), os.path.join(directory, "out")
        write_trace(jobs, trace, list(types), measured)
        pool = ["--nodes", str(sum(types.values()))]
        if len(types) > 1:
            speeds = os.path.join(directory, "speeds.csv")
            write_speeds(jobs, speeds, list(types), measured)
            pool = ["--node-types", ",".join(f"{name}={nodes}" for name, nodes in types.items()), "--speeds", speeds]
        subprocess.run(
            [lab, "simulate", "--trace", trace, *pool, "--gpus-per-node", "1", "--policy", ",".join(policies), "--out", out],
            check=True, stdout=subprocess.DEVNULL,
        )
        predicted: Dict[str, Dict[str, float]] = {policy: {} for policy in policies}
        with open(os.path.join(out, "jobs.csv")) as file:
            for row in csv.DictReader(file):
                predicted[row["policy"]][row["job_id"]] = float(row["total_s"]) / SCALE
        return predicted


def measure(result: Result) -> Dict[str, Dict[str, Any]]:
    """Returns the times of steps and restarts of a run, by job id, for write_trace.

    The time of a step on a size is the mean of the job, otherwise that of its model in the run, otherwise the known
    one. The restart time is the mean start and half of the mean stop of the job."""
    pooled: Dict[Any, List[float]] = {}  # total time and number of steps, by job or model, node type and nodes
    restarts: Dict[str, float] = {}
    for state in result.states.values():
        starts = [a.begun - a.spawned for a in state.attempts if a.begun is not None]
        stops = [a.gone - a.ended for a in state.attempts if a.ended is not None and a.gone is not None]
        model = state.job.model
        restarts[state.job.id] = statistics.mean(starts or [model.load_s]) + statistics.mean(stops or [model.save_s]) / 2
        for a in state.attempts:
            if a.begun is None or a.last_at is None or a.last_step == a.first_step:
                continue
            size = (a.node_type, len(a.slots))
            for key in ((state.job.id, size), (model.name, size)):
                total = pooled.setdefault(key, [0.0, 0.0])
                total[0] += a.last_at - a.begun
                total[1] += a.last_step - a.first_step
    measured = {}
    for state in result.states.values():
        job, step_s = state.job, {}
        for size, known in job.model.times(list(result.types)).items():
            total, steps = pooled.get((job.id, size)) or pooled.get((job.model.name, size)) or (known, 1)
            step_s[size] = total / steps
        measured[job.id] = {"step_s": step_s, "restart_s": restarts[job.id]}
    return measured
