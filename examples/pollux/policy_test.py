"""Tests policy.py without the simulator of Pollux, around a server of elastalloc.

A small simulator with the same public interface takes its place: a cluster that calls
optimize(), and jobs with epochs, progress and a curve of goodput.
"""

import os
import pathlib
import types
import unittest

import policy
from elastalloc import Client


class Application:
    init_batch_size, max_batch_size, min_local_bsz, max_local_bsz = 32, 1024, 16, 64
    max_epochs = 3

    def __init__(self, name, length, across_nodes=0.1):
        self.name, self.length, self.across_nodes = name, length, across_nodes

    def get_progress(self, epoch):
        return self.length * epoch

    def get_completion_epoch(self, _):
        return self.max_epochs - 1

    def get_grad_stats(self, _, epoch):
        return 1.0, 4.0 * (epoch + 1)

    def get_throughput(self, placement, local):
        sync = 0.05 * (sum(placement) > 1) + self.across_nodes * (len(placement) > 1)
        return 0.01 * local + sync, sync


class Job:
    def __init__(self, name, application, submission_time, target_batch_size):
        self.name, self.application, self.submission_time = name, application, submission_time
        self.target_batch_size = target_batch_size
        self.current_time = self.epoch = self.rescale_time = 0
        self.progress, self.completion_time = 0.0, None
        self.num_restarts, self.placement = None, ()
        self.perf_params, self.max_profiled_replicas = None, 0

    def get_goodput_fn(self):
        # Learned wrongly on purpose: twice as fast with each doubling.
        return types.SimpleNamespace(throughput=lambda nodes, gpus, local, accumulation: 3.0 * gpus)

    def goodput(self):
        app, gpus = self.application, sum(self.placement)
        fixed, best = self.target_batch_size, 0.0
        for batch in [fixed] if fixed else policy.candidates(app, gpus):
            local, accumulation = policy.split(app, batch, gpus)
            step, sync = app.get_throughput(self.placement, local)
            total = gpus * local * (accumulation + 1)
            if app.init_batch_size <= total <= app.max_batch_size:
                gain = policy.gain(app, total, self.epoch)
                best = max(best, gain / (step + (step - sync) * accumulation))
        return best

    def step(self, seconds):
        end = self.current_time + seconds
        if self.placement and self.completion_time is None:
            self.max_profiled_replicas = max(self.max_profiled_replicas, sum(self.placement))
            self.perf_params = "learned"
            waits = min(self.rescale_time, seconds)
            self.rescale_time -= waits
            self.current_time += waits
            while self.current_time < end and self.completion_time is None:
                left = self.application.get_progress(self.epoch + 1) - self.progress
                takes = left / self.goodput()
                if takes > end - self.current_time:
                    self.progress += left * (end - self.current_time) / takes
                    break
                self.current_time += takes
                self.epoch += 1
                self.progress = self.application.get_progress(self.epoch)
                if self.epoch > self.application.get_completion_epoch(self.target_batch_size):
                    self.completion_time = self.current_time
        self.current_time = end


class OptimusPolicy:
    pass


class PolluxPolicy:
    pass


class Cluster:
    def __init__(self, workload, policy, nodes, num_gpus):
        adaptive = isinstance(policy, PolluxPolicy)
        assert adaptive or isinstance(policy, OptimusPolicy)
        self.jobs = [Job(*row[:3], None if adaptive else row[3]) for row in workload]
        self.policy, self.time, self.allocations = policy, 0, {}
        self.nodes = {
            node: types.SimpleNamespace(resources={"nvidia.com/gpu": num_gpus})
            for node in range(nodes)
        }

    def step(self, seconds):
        self.time += seconds
        for job in self.jobs:
            job.step(seconds)
        active = {
            job.name: types.SimpleNamespace(speedup_fn=None)
            for job in self.jobs
            if job.submission_time <= self.time and job.completion_time is None
        }
        before = {key: gpus for key, gpus in self.allocations.items() if key in active}
        if not active:
            self.allocations = {}
            return
        self.allocations, _ = self.policy.optimize(active, self.nodes, before, self.nodes[0])
        taken = sum(self.allocations.values(), [])
        for node, info in self.nodes.items():
            assert taken.count(node) <= info.resources["nvidia.com/gpu"], self.allocations
        for job in self.jobs:
            gpus = self.allocations.get(job.name, [])
            if gpus != before.get(job.name, []):
                job.placement = tuple(gpus.count(node) for node in dict.fromkeys(gpus))
                job.rescale_time = policy.RESTART
                job.num_restarts = 0 if job.num_restarts is None else job.num_restarts + 1

    def all_complete(self):
        return all(job.completion_time is not None for job in self.jobs)


def workload(across_nodes=0.1):
    """Returns jobs of two kinds, more than 2 nodes can run at once."""
    short = Application("short", 2_000, across_nodes)
    long = Application("long", 20_000, across_nodes)
    return [(f"job-{n}", (long, short, short)[n % 3], 120 * n, 256) for n in range(12)]


SIMULATOR = types.SimpleNamespace(
    Cluster=Cluster,
    OptimusPolicy=OptimusPolicy,
    PolluxPolicy=PolluxPolicy,
    fit_perf_params=None,
    pandas=types.SimpleNamespace(read_csv=lambda _: workload()),
)


class TestPolicy(unittest.TestCase):
    def setUp(self):
        self.client = Client(os.environ["ELASTALLOC_SERVER"], timeout=30)
        self.addCleanup(self.client.close)

    def run_policy(self, name, batch="fixed", speeds="given", eta="exact"):
        arguments = types.SimpleNamespace(client=self.client, seed=1, interval=60, nodes=2)
        setting = (name, batch, speeds, eta)
        return policy.run(SIMULATOR, pathlib.Path("workload-1.csv"), arguments, setting)

    def test_all_decisions_are_proven(self):
        for eta in ("exact", "2", "unknown"):
            for batch, speeds in (("fixed", "given"), ("fixed", "learned"), ("goodput", "given")):
                with self.subTest(eta=eta, batch=batch, speeds=speeds):
                    result = self.run_policy("elastalloc", batch, speeds, eta)
                    self.assertGreater(result["decisions"], 20)
                    self.assertEqual(result["proven"], result["decisions"])

    def test_less_information_costs_time(self):
        exact = self.run_policy("elastalloc")
        self.assertLess(exact["mean"], self.run_policy("max-min")["mean"])
        self.assertLess(exact["mean"], self.run_policy("elastalloc", speeds="learned")["mean"])
        self.assertNotEqual(exact["mean"], self.run_policy("elastalloc", eta="4")["mean"])
        self.assertLess(self.run_policy("elastalloc", "goodput")["mean"], exact["mean"])

    def test_left_is_what_a_job_takes(self):
        for batch in (None, 256):
            curves = policy.Curves()
            for gpus, at in ((1, 0), (3, 2), (8, 7)):
                job = Job("a", Application("a", 3_000), 0, batch)
                job.placement = policy.packed(gpus)
                job.step(400)  # Some of the first epoch.
                sizes, times = curves.left(job)
                self.assertEqual(sizes[at], gpus)
                expected = job.current_time + times[at]
                job.step(10**7)
                self.assertAlmostEqual(job.completion_time, expected, delta=1)

    def test_goodput_is_never_slower_than_a_fixed_batch(self):
        curves, app = policy.Curves(), Application("a", 3_000)
        sizes, fixed = curves.left(Job("a", app, 0, 256))
        _, best = curves.left(Job("a", app, 0, None))
        for k, slower, faster in zip(sizes, fixed, best):
            self.assertLess(faster, slower * 1.05, k)  # The candidates are a grid.
        self.assertLess(best[0], 0.9 * fixed[0])

    def test_work_adds_up_to_the_whole_job(self):
        rows = workload(across_nodes=0)  # Where GPUs are does not matter.
        clusters = []
        own = type("Own", (policy.Elastalloc, OptimusPolicy), {})
        tried = own(lambda: clusters[0].jobs, "given", self.client, "unknown", 1)
        clusters.append(Cluster(rows, tried, 2, 4))
        while not clusters[0].all_complete():
            clusters[0].step(60)
        tried._account({job.name: job for job in clusters[0].jobs})
        for name, app, submitted, batch in rows:
            total = policy.Curves().left(Job(name, app, submitted, batch))[1][0]
            self.assertAlmostEqual(tried.work[name] / total, 1, delta=0.01)

    def test_estimates(self):
        own = policy.Elastalloc(lambda: [], "given", self.client, "4", 1)
        message = policy.pb.Job()
        own._estimate("a", 1000.0, message)
        self.assertGreater(message.eta_error, 1)
        self.assertNotAlmostEqual(message.remaining_eta.ToNanoseconds() / 1e9, 1000, delta=100)
        estimate = own._user_estimates["a"]
        own.work["a"] = 500.0
        own._estimate("a", 1.0, message)  # What is left in truth is not looked at again.
        self.assertEqual(own._user_estimates["a"], estimate)
        self.assertGreater(message.remaining_eta.ToNanoseconds() / 1e9, 10)


class TestParts(unittest.TestCase):
    def test_learned_speeds_end_at_twice_the_gpus_that_a_job_had(self):
        job = Job("a", Application("a", 1), 0, 256)
        self.assertEqual(policy.learned(job, None), ([1], [1.0]))
        job.perf_params, job.max_profiled_replicas = "learned", 3
        self.assertEqual(policy.learned(job, None), ([1, 2, 3, 4, 5, 6], [1.0, 2, 3, 4, 5, 6]))

    def test_sizes_that_are_no_faster_are_left_out(self):
        self.assertEqual(policy.rising([1, 2, 4, 8], [1, 1.5, 1.5, 2]), ([1, 2, 8], [1, 1.5, 2]))

    def test_places(self):
        free = {0: 4, 1: 4, 2: 4}
        before = {"kept": [1, 1], "grown": [0]}
        placed = policy.place({"kept": 2, "grown": 4, "new": 1, "wide": 5}, before, free)
        self.assertEqual(placed["kept"], [1, 1])
        self.assertEqual(sorted(placed["wide"]), [0, 0, 0, 0, 1])  # A whole node, and the fullest.
        self.assertEqual(placed["grown"], [2] * 4)
        self.assertEqual(placed["new"], [1])

    def test_splits_as_the_simulator_does(self):
        app = Application("a", 1)
        self.assertEqual(policy.split(app, 256, 4), (64, 0))
        self.assertEqual(policy.split(app, 256, 2), (64, 1))
        self.assertEqual(policy.split(app, 48, 1), (24, 1))  # At least one accumulation step.
        self.assertEqual(policy.split(app, 32, 1), (32, 0))

    def test_percentile(self):
        self.assertEqual(policy.percentile(list(range(1, 101)), 0.95), 95)
        self.assertEqual(policy.percentile([7], 0.95), 7)


if __name__ == "__main__":
    unittest.main()
