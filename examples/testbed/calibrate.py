"""Measures the steps, starts and stops of the models on a full machine, as they are in runs."""

import argparse
import dataclasses
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Tuple

from testbed import jobs
from testbed.cluster import CHECKPOINT_STEPS, Cluster, State

STEPS = 12  # steps of each job, after which it is stopped
ENDLESS = 1 << 30


def measure(cluster: Cluster, model: jobs.Model, size: int, others: List[jobs.Model]) -> Tuple[List[float], List[float], List[float]]:
    """Runs copies of a model on a size until the pool is full, and returns the times of their steps, starts and stops.
    Nodes that remain run other models on one node."""
    copies = []
    for n in range(cluster.nodes // size):
        copies.append(cluster.add(jobs.Job(f"{model.name}-{size}-{n}", 0.0, model, size, ENDLESS)))
        cluster.resize(copies[-1], size)
    fillers: List[State] = []
    for n in range(cluster.nodes % size):
        fillers.append(cluster.add(jobs.Job(f"{model.name}-{size}-filler-{n}", 0.0, others[n % len(others)], 1, ENDLESS)))
        cluster.resize(fillers[-1], 1)
    while any(state.step < STEPS for state in copies):
        if not all(state.current() for state in copies):
            raise SystemExit(f"{model.name} on {size} nodes: a worker has failed; see {cluster.directory}")
        cluster.poll()
        time.sleep(0.02)
    for state in copies + fillers:
        cluster.resize(state, 0)
    while any(state.current() for state in copies + fillers):
        cluster.poll()
        time.sleep(0.02)
    attempts = [state.attempts[0] for state in copies if not state.attempts[0].killed]
    if not attempts:
        raise SystemExit(f"{model.name} on {size} nodes does not stop within --grace, {cluster.grace:.0f} s")
    return (
        [(a.last_at - a.begun) / (a.last_step - a.first_step) for a in attempts],
        [a.begun - a.spawned for a in attempts],
        [a.gone - a.ended for a in attempts],
    )


def main(arguments: argparse.Namespace) -> int:
    """Writes the file of calibration."""
    plain = {model.name: model for model in jobs.plain_models(arguments.nodes)}
    if arguments.variant == "torch":
        for name in plain:
            found = subprocess.run([sys.executable, "-m", "testbed.models", name], check=True, stdout=subprocess.PIPE, text=True)
            plain[name] = dataclasses.replace(plain[name], examples=int(found.stdout), slow=1.0)
    measured = []
    directory = tempfile.mkdtemp(prefix="testbed-")
    for name in plain:
        step_s: Dict[int, float] = {}
        starts: List[float] = []
        stops: List[float] = []
        for size in jobs.sizes(arguments.nodes):
            folder = os.path.join(directory, f"{name}-{size}")
            os.mkdir(folder)
            checkpoints = CHECKPOINT_STEPS[arguments.variant]
            cluster = Cluster(folder, arguments.nodes, arguments.variant, arguments.start, arguments.grace, checkpoints)
            try:
                steps, begun, stopped = measure(cluster, plain[name], size, list(plain.values()))
            finally:
                cluster.close()
            step_s[size] = statistics.median(steps)
            starts += begun
            stops += stopped
        load_s, save_s = statistics.median(starts), statistics.median(stops)
        measured.append(dataclasses.replace(plain[name], step_s=step_s, load_s=load_s, save_s=save_s))
        times = ", ".join(f"{1000 * s:.0f} ms on {k}" for k, s in step_s.items())
        print(f"{name}: steps {times}; start {measured[-1].load_s:.2f} s, stop {measured[-1].save_s:.2f} s", flush=True)
    shutil.rmtree(directory)
    jobs.write_models(measured, arguments.calibration)
    return 0
