"""Tests policy.py without ElastiSim, around a server of elastalloc.

A small simulator takes the place of ElastiSim. It has the same interface: it calls schedule(),
sends jobs with their nodes, and resizes a malleable job only between two iterations.
"""

import enum
import os
import sys
import types
import unittest

JobType = enum.Enum("JobType", "RIGID MALLEABLE")
JobState = enum.Enum("JobState", "PENDING RUNNING PENDING_RECONFIGURATION COMPLETED KILLED")
NodeState = enum.Enum("NodeState", "FREE ALLOCATED")
InvocationType = enum.Enum(
    "InvocationType",
    "INVOKE_PERIODIC INVOKE_JOB_SUBMIT INVOKE_JOB_COMPLETED INVOKE_SCHEDULING_POINT",
)
sys.modules["elastisim_python"] = types.SimpleNamespace(
    JobType=JobType,
    JobState=JobState,
    NodeState=NodeState,
    InvocationType=InvocationType,
    pass_algorithm=None,
)

import policy  # noqa: E402
from elastalloc import Client  # noqa: E402

FLOPS_PER_NODE = 1e12


class Node:
    def __init__(self):
        self.state = NodeState.FREE


class Job:
    def __init__(self, identifier, submit_time, seconds, malleable, iterations=100, parallel=0.99):
        self.identifier, self.submit_time = identifier, submit_time
        self.type = JobType.MALLEABLE if malleable else JobType.RIGID
        self.state = JobState.PENDING
        self.num_nodes, self.num_nodes_min, self.num_nodes_max = 2, 1, 8
        self.total_phase_count = iterations if malleable else 1
        self.completed_phases = 0  # Not kept, as ElastiSim does not send it.
        flops = str(seconds * FLOPS_PER_NODE)
        self.arguments = {"flops": flops, "parallel_percentage": str(parallel)}
        self.assigned_nodes, self.trains_on = [], []
        self.start_time, self.end_time, self.done = -1.0, -1.0, 0

    def assign(self, nodes):
        assert all(node.state is NodeState.FREE for node in nodes)
        for node in nodes:
            node.state = NodeState.ALLOCATED
        self.assigned_nodes = self.assigned_nodes + nodes

    def remove(self, nodes):
        assert self.type is JobType.MALLEABLE
        self.assigned_nodes = [node for node in self.assigned_nodes if node not in nodes]
        assert self.assigned_nodes

    def assign_num_gpus_per_node(self, _):
        pass


class Simulator:
    def __init__(self, jobs, nodes):
        self.jobs, self.nodes, self.now = jobs, [Node() for _ in range(nodes)], 0.0
        self.resizes = 0

    def run(self, tried):
        submits = InvocationType.INVOKE_JOB_SUBMIT
        events = [(job.submit_time, job.identifier, submits) for job in self.jobs]
        events += [(60.0 * n, -1, InvocationType.INVOKE_PERIODIC) for n in range(1, 2_000)]
        submitted = []
        while any(job.state is not JobState.COMPLETED for job in self.jobs):
            events.sort(key=lambda event: event[:2])
            self.now, identifier, kind = events.pop(0)
            job = self.jobs[identifier]
            if kind is InvocationType.INVOKE_JOB_SUBMIT:
                submitted.append(job)
            elif kind is InvocationType.INVOKE_SCHEDULING_POINT:
                job.done += 1
                if job.done == job.total_phase_count:
                    kind = InvocationType.INVOKE_JOB_COMPLETED
                    job.state, job.end_time = JobState.COMPLETED, self.now
                    self.use(job, [])
            system = {"invocation_type": kind, "time": self.now, "job": job}
            tried.schedule(submitted, self.nodes, system)
            for other in submitted:
                if other.state is JobState.PENDING and other.assigned_nodes:
                    other.state, other.start_time = JobState.RUNNING, self.now
                    self.use(other, other.assigned_nodes)
                    events.append(self.iteration(other))
                elif other.assigned_nodes != other.trains_on and other.state is JobState.RUNNING:
                    other.state = JobState.PENDING_RECONFIGURATION
            if kind is InvocationType.INVOKE_SCHEDULING_POINT:
                if job.state is JobState.PENDING_RECONFIGURATION:
                    self.resizes += 1
                    job.state = JobState.RUNNING
                    self.use(job, job.assigned_nodes)
                events.append(self.iteration(job))

    def use(self, job, nodes):
        for node in job.trains_on:
            if node not in nodes:
                node.state = NodeState.FREE
        job.trains_on = job.assigned_nodes = list(nodes)

    def iteration(self, job):
        parallel = float(job.arguments["parallel_percentage"])
        seconds = float(job.arguments["flops"]) / FLOPS_PER_NODE
        seconds *= (1 - parallel + parallel / len(job.trains_on)) / job.total_phase_count
        return self.now + seconds, job.identifier, InvocationType.INVOKE_SCHEDULING_POINT


class TestPolicy(unittest.TestCase):
    def setUp(self):
        self.client = Client(os.environ["ELASTALLOC_SERVER"], timeout=30)
        self.addCleanup(self.client.close)

    def run_jobs(self, malleable):
        jobs = [Job(n, 50.0 * n, (4_000, 1_000)[n % 2], malleable(n)) for n in range(12)]
        simulator, tried = Simulator(jobs, 8), policy.Policy(self.client, FLOPS_PER_NODE)
        simulator.run(tried)
        self.assertEqual(tried.proven, len(tried.seconds))
        return sum(job.end_time - job.submit_time for job in jobs) / len(jobs), simulator, tried

    def test_malleable_jobs_complete_sooner(self):
        rigid, simulator, _ = self.run_jobs(lambda n: False)
        self.assertEqual(simulator.resizes, 0)
        some, simulator, _ = self.run_jobs(lambda n: n % 3 == 0)
        self.assertGreater(simulator.resizes, 0)
        every, simulator, tried = self.run_jobs(lambda n: True)
        self.assertGreater(simulator.resizes, 5)
        self.assertLess(some, rigid)
        self.assertLess(every, some)
        for job in simulator.jobs:  # All iterations but the last have a scheduling point.
            self.assertEqual(tried._iterations[job.identifier], job.total_phase_count - 1)


if __name__ == "__main__":
    unittest.main()
