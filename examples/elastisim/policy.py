#!/usr/bin/env python3
"""Runs elastalloc as a scheduling algorithm of ElastiSim.

    bin/elastalloc serve &
    elastisim configuration.json &
    PYTHONPATH=$(echo bin/elastalloc-*.whl):elastisim-python \\
        /usr/bin/python3 examples/elastisim/policy.py --url ipc:///tmp/elastisim.ipc

ElastiSim calls schedule() with all jobs and nodes, and schedule() adds nodes to jobs or removes
them. A running malleable job is resized at its next scheduling point. The jobs must have the
arguments flops, divide (the number of iterations) and parallel_percentage (of Amdahl's law), as
those of MalleableJobScheduling have. docs/evaluation/elastisim.md has results.
"""

import argparse
import collections
import contextlib
import json
import statistics
import time
from typing import Dict, List

from elastalloc import Client, pb
from elastisim_python import InvocationType, JobState, JobType, NodeState, pass_algorithm

# ElastiSim cannot pause a job. This admission never takes all nodes of a running job. Without a share
# price, decisions minimize the mean job completion time alone.
OPTIONS = pb.AllocateOptions(
    objective=pb.OBJECTIVE_TOTAL_TIME,
    admission=pb.ADMISSION_OPTIMIZED,
    total_time=pb.TotalTimeOptions(share_price=0),
)


class Policy:
    """Decides at submissions, completions and periodically. At the scheduling points of jobs, it
    gives the nodes that became free to the jobs that the last decision meant them for."""

    def __init__(self, client: Client, flops_per_node: float) -> None:
        self._client, self._flops_per_node = client, flops_per_node
        self._sizes: Dict[int, int] = {}  # of each job, as decided last
        # A job has a scheduling point after each iteration. ElastiSim sends its completed phases
        # only when its nodes change.
        self._iterations: Dict[int, int] = collections.Counter()
        self.seconds: List[float] = []  # how long each decision took
        self.proven = 0
        self.resizes = 0  # of running jobs

    def schedule(self, jobs, nodes, system) -> None:
        """Is called by ElastiSim with all jobs that were submitted so far."""
        active = [job for job in jobs if job.state not in (JobState.COMPLETED, JobState.KILLED)]
        if system["invocation_type"] is InvocationType.INVOKE_SCHEDULING_POINT:
            self._iterations[system["job"].identifier] += 1
        elif active:
            self._decide(active, len(nodes), system["time"])
        self._assign(active, [node for node in nodes if node.state is NodeState.FREE])

    def _decide(self, active, total_nodes: int, now: float) -> None:
        snapshot = pb.Snapshot(total_nodes=total_nodes)
        for job in active:
            allocated = len(job.assigned_nodes)
            message = snapshot.jobs.add(id=str(job.identifier), current_nodes=allocated)
            if job.type is JobType.MALLEABLE:
                sizes = range(job.num_nodes_min, job.num_nodes_max + 1)
            else:
                sizes = [allocated or job.num_nodes]
            times = [self._duration(job, size) for size in sizes]
            message.allowed_nodes.extend(sizes)
            message.scaling.table.speeds.extend(self._duration(job, 1) / each for each in times)
            message.max_nodes, message.eta_nodes = sizes[-1], sizes[0]
            started = now if job.state is JobState.PENDING else job.start_time
            left = times[0] - (now - started)
            if job.type is JobType.MALLEABLE:
                left = times[0] * (1 - self._iterations[job.identifier] / job.total_phase_count)
            message.remaining_eta.FromMilliseconds(max(1, round(left * 1e3)))
            message.waiting_time.FromSeconds(round(started - job.submit_time))
            message.training_time.FromSeconds(round(now - started))
        begin = time.perf_counter()
        response = self._client.allocate(snapshot, OPTIONS)
        self.seconds.append(time.perf_counter() - begin)
        self.proven += response.report.reason == pb.REASON_OPTIMAL
        self._sizes = {int(job.job_id): job.nodes for job in response.allocations}

    def _duration(self, job, nodes: int) -> float:
        """Returns the seconds that the whole job takes on this number of nodes."""
        parallel = float(job.arguments["parallel_percentage"])
        serial_time = float(job.arguments["flops"]) / self._flops_per_node
        return serial_time * (1 - parallel + parallel / nodes)

    def _assign(self, active, free) -> None:
        """Shrinks running jobs, then starts and grows jobs on the nodes that are free now. A
        malleable job starts on fewer nodes than decided if the others are not free yet."""
        resizable = [job for job in active if job.state in (JobState.PENDING, JobState.RUNNING)]
        for job in sorted(resizable, key=lambda job: job.state is JobState.RUNNING):
            size, allocated = self._sizes.get(job.identifier, 0), len(job.assigned_nodes)
            if size < allocated and size > 0:
                job.remove(job.assigned_nodes[size:])
                self.resizes += 1
            elif size > allocated:
                least = 1 if allocated else size
                if job.type is JobType.MALLEABLE and not allocated:
                    least = job.num_nodes_min
                if len(free) >= least:
                    taken, free = free[: size - allocated], free[size - allocated :]
                    job.assign(taken)
                    job.assign_num_gpus_per_node(0)
                    self.resizes += job.state is JobState.RUNNING


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="localhost:50051")
    parser.add_argument("--url", default="ipc:///tmp/elastisim.ipc", help="zmq_url of ElastiSim")
    parser.add_argument("--flops-per-node", type=float, default=1e12)
    arguments = parser.parse_args()
    with contextlib.closing(Client(arguments.server, timeout=30)) as client:
        policy = Policy(client, arguments.flops_per_node)
        pass_algorithm(policy.schedule, arguments.url)
    result = {
        "decisions": len(policy.seconds),
        "proven": policy.proven,
        "median_ms": round(1e3 * statistics.median(policy.seconds), 2),
        "resizes": policy.resizes,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
