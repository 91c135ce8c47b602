"""Tests of the testbed: python3 -m unittest testbed.testbed_test. Those of PyTorch are skipped without it."""

import csv
import dataclasses
import importlib.util
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from typing import Any, Dict, List
from unittest import mock

from google.protobuf import json_format

from elastalloc import message, pb
from testbed import check, jobs, policies, predict, worker
from testbed.cluster import Attempt, Cluster, State
from testbed.scheduler import Result

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAB = os.path.join(ROOT, "bin", "elastalloc-lab")
MODELS = jobs.plain_models(8)


def spec(directory: str, **fields: Any) -> Dict[str, Any]:
    """Returns the spec of a worker."""
    path = os.path.join(directory, "job")
    return {
        "id": 1, "job": "job", "attempt": 0, "rank": 0, "world": 1, "variant": "plain", "exec": False, "model": "mlp", "steps": 4,
        "step_s": 0.01, "load_s": 0.0, "save_s": 0.0, "spawned": time.monotonic(), "checkpoint_steps": 0, "ignores_sigterm": False,
        "core": 0, "slot": 0, "examples": 2, "lock": path + ".slot", "reports": path + ".reports", "rendezvous": path + ".rendezvous",
        "checkpoint": path + ".json", "log": path + ".log", **fields,
    }


def as_program() -> None:
    """Is a policy for `simulate --policy command:`. It decides as the testbed does, with FillIdle written in Python."""
    requested = json.loads(sys.argv[2])
    for line in sys.stdin:
        request = json_format.Parse(line, pb.AllocateRequest(), ignore_unknown_fields=True)
        snapshot = request.snapshot
        now = sum(int(n) * {"h": 3600, "m": 60, "s": 1}[unit] for n, unit in re.findall(r"(\d+)([hms])", snapshot.id.split("@")[1]))
        if sys.argv[1] == "fifo":
            nodes = policies.fifo(snapshot, requested)
        elif now % policies.PERIOD == 0:
            nodes = policies.max_min(snapshot)
        else:
            nodes = {job.id: job.current_nodes for job in snapshot.jobs}
            idle = snapshot.total_nodes - sum(nodes.values())
            for job in snapshot.jobs:
                fitting = [size for size in policies.legal_sizes(job) if size <= idle]
                if nodes[job.id]:
                    continue
                if not fitting:
                    break
                nodes[job.id] = max(fitting)
                idle -= max(fitting)
        print(json_format.MessageToJson(policies.response(nodes), indent=None), flush=True)


class PolicyTest(unittest.TestCase):
    """Compares the policies with those of the simulator, which share no code with them."""

    def test_equal_the_simulator(self) -> None:
        for seed in range(3):
            workload = jobs.generate(MODELS, 15, 8, seed)
            requested = json.dumps({job.id: job.requested for job in workload}, separators=(",", ":"))
            for name in ("fifo", "max-min"):
                program = f"command:{sys.executable} -m testbed.testbed_test {name} {requested}"
                with tempfile.TemporaryDirectory() as directory:
                    trace, out = os.path.join(directory, "t.csv"), os.path.join(directory, "out")
                    jobs.write_trace(workload, trace, [""], {})
                    simulate = [LAB, "simulate", "--trace", trace, "--nodes", "8", "--gpus-per-node", "1", "--out", out]
                    # The value of --policy is CSV.
                    quoted = '"' + program.replace('"', '""') + '"'
                    subprocess.run([*simulate, "--policy", f"{name},{quoted}"], check=True, stdout=subprocess.DEVNULL)
                    times: Dict[str, List[str]] = {}
                    with open(os.path.join(out, "jobs.csv")) as file:
                        for row in csv.DictReader(file):
                            times.setdefault(row["policy"], []).append((row["job_id"], row["start_s"], row["end_s"], row["resizes"]))
                self.assertEqual(len(times[name]), 15)
                self.assertEqual(times[name], times[program], f"{name}, seed {seed}")

    def test_keeps_jobs_that_keep_their_nodes(self) -> None:
        table = {"table": {"speeds": [1, 1.9, 3.5, 6]}}
        snapshot = message(
            pb.Snapshot, total_nodes=8,
            jobs=[
                {"id": "kept", "current_nodes": 3, "keep": True},
                {"id": "runs", "current_nodes": 4, "allowed_nodes": [1, 2, 4, 8], "scaling": table},
                {"id": "pinned", "current_nodes": 1, "allowed_nodes": [1, 2, 4, 8], "min_nodes": 1, "max_nodes": 1, "scaling": table},
                {"id": "queued", "allowed_nodes": [1, 2, 4, 8], "scaling": table},
            ],
        )
        self.assertEqual(policies.max_min(snapshot), {"kept": 3, "runs": 2, "pinned": 1, "queued": 2})
        requested = {"runs": 1, "pinned": 1, "queued": 1}
        self.assertEqual(policies.fifo(snapshot, requested), {"kept": 3, "runs": 4, "pinned": 1, "queued": 0})


class WorkerTest(unittest.TestCase):
    def test_all_reduce(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            sums: Dict[int, List[int]] = {}

            def rank(number: int) -> None:
                group = worker.PlainGroup(number, 4, os.path.join(directory, "r"))
                for step in range(3):
                    sums[number] = group.all_reduce([10**number, step])
                group.close()

            threads = [threading.Thread(target=rank, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sums, {number: [1111, 8] for number in range(4)})

    def test_slot_in_use(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            taken = worker.take_slot(spec(directory))
            command = [sys.executable, "-m", "testbed.worker", json.dumps(spec(directory))]
            second = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(second.returncode, worker.SLOT_IN_USE, second.stderr)
            self.assertIn("job.slot is in use by another process", second.stderr)
            os.close(taken)

    def test_result_does_not_depend_on_resizes(self) -> None:
        """Resizes a job after some steps, and ends the fork server to kill what it runs at the end."""
        with tempfile.TemporaryDirectory() as directory:
            cluster = Cluster(directory, 4, "plain", "fork", 60.0, checkpoint_steps=0)
            model = dataclasses.replace(MODELS[0], step_s={k: 0.02 for k in (1, 2, 4)}, load_s=0.0)
            job = cluster.add(jobs.Job("job", 0.0, model, 1, 40))
            endless = cluster.add(jobs.Job("endless", 0.0, model, 1, 1 << 30))
            cluster.resize(endless, 1)
            for nodes, steps in ((2, 5), (1, 12), (2, 20)):
                cluster.resize(job, nodes)
                while job.step < steps or len(job.current().slots) != nodes:
                    cluster.poll()
                    time.sleep(0.01)
            with self.assertRaisesRegex(AssertionError, "job grows to 4 nodes, but 1 are free"):
                cluster.resize(job, 4)
            while job.current():
                cluster.poll()
                time.sleep(0.01)
            self.assertEqual(cluster.saved(job), {"step": 40, "loss": 1 / 40, "sum": check.expected(40)})
            self.assertEqual([len(attempt.slots) for attempt in job.attempts], [2, 1, 2])
            self.assertEqual(len(cluster.free), 3)
            cluster.close()
            worker.take_slot(spec(directory, lock=os.path.join(directory, f"slot-{endless.attempts[0].slots[0]}")))


    def test_workers_that_fail_end_a_run(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            for attempt in range(3):  # Rank 0 of each attempt fails, because this file exists.
                open(os.path.join(directory, f"job-{attempt}.new"), "w").close()
            cluster = Cluster(directory, 2, "plain", "fork", 60.0, 0)
            job = cluster.add(jobs.Job("job", 0.0, MODELS[0], 2, 10))
            with self.assertRaisesRegex(RuntimeError, r"(?s)the workers of job fail 3 times.*Address already in use"):
                for _ in range(3):
                    cluster.resize(job, 2)
                    while job.current():
                        cluster.poll()
                        time.sleep(0.01)
            self.assertEqual(len(job.attempts), 3)
            cluster.close()


class CommandTest(unittest.TestCase):
    def test_no_process_outlives_a_killed_testbed(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with tempfile.TemporaryDirectory() as directory:
                command = [sys.executable, "-m", "testbed", "run", "--policy", "fifo", "--jobs", "50"]
                testbed = subprocess.Popen(command, env={**os.environ, "TMPDIR": directory})
                while len(processes_in(directory)) < 3:  # The server and two workers.
                    self.assertIsNone(testbed.poll())
                    time.sleep(0.01)
                testbed.send_signal(number)
                self.assertEqual(testbed.wait(), -number)
                until = time.monotonic() + 60
                while processes_in(directory):
                    self.assertLess(time.monotonic(), until, "processes are left")
                    time.sleep(0.01)


def processes_in(directory: str) -> List[int]:
    """Returns the processes that have a file below a directory open."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            opened = [os.readlink(f"/proc/{process}/fd/{fd}") for fd in os.listdir(f"/proc/{process}/fd")]
        except (FileNotFoundError, PermissionError):
            continue  # It is gone or belongs to another user.
        if any(name.startswith(directory + "/") for name in opened):
            found.append(int(process))
    return found


class PredictTest(unittest.TestCase):
    def test_measured_times(self) -> None:
        model = dataclasses.replace(MODELS[0], step_s={1: 0.2, 2: 0.1}, load_s=0.5, save_s=0.1)
        state = State(jobs.Job("a", 0.0, model, 1, 30))
        state.attempts = [
            Attempt(0, [0], 0.0, 0, begun=1.0, last_step=10, last_at=5.0, ended=5.0, gone=5.5),
            Attempt(1, [0], 6.0, 10, begun=9.0, last_step=30, last_at=15.0, ended=15.0, gone=15.5),
        ]
        result = Result("fifo", {}, {"a": state}, {}, 0, 0, [], 0.0)
        measured = predict.measure(result)["a"]
        self.assertAlmostEqual(measured["step_s"]["", 1], 10 / 30)
        self.assertEqual(measured["step_s"]["", 2], 0.1)
        self.assertAlmostEqual(measured["restart_s"], (1 + 3) / 2 + 0.5 / 2)

    def test_alone(self) -> None:
        """A job alone has the time of its steps and one restart, in the trace's unit of time."""
        job = jobs.Job("a", 0.0, MODELS[0], 4, 100)
        times = predict.predict(LAB, [job], {"": 8}, ["fifo"], {"a": {"restart_s": 2.0}})
        self.assertAlmostEqual(times["fifo"]["a"], 100 * MODELS[0].step_s[4] + 2, delta=2 / jobs.SCALE)

    def test_alone_on_types(self) -> None:
        """A job whose first type is the slow one in the pool needs its time there. Work is relative to a fast node."""
        model = dataclasses.replace(MODELS[0], slow=3.0)
        job = jobs.Job("a", 0.0, model, 4, 100)
        for types, size, step_s in (({"fast": 8, "slow": 8}, 8, model.step_s[8]), ({"fast": 1, "slow": 8}, 8, 3 * model.step_s[8])):
            times = predict.predict(LAB, [job], types, ["type-kept"], {"a": {"restart_s": 2.0}})
            self.assertAlmostEqual(times["type-kept"]["a"], 100 * step_s + 2, delta=2 / jobs.SCALE, msg=str(types))

    def test_types(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            cluster = Cluster(directory, 4, "plain", "fork", 60.0, 0, slow_nodes=3)
            model = dataclasses.replace(MODELS[0], step_s={k: 0.02 for k in (1, 2, 4)}, load_s=0.0, slow=5.0)
            job = cluster.add(jobs.Job("job", 0.0, model, 1, 1 << 30))
            with self.assertRaisesRegex(AssertionError, "job grows to 2 nodes, but 1 are free"):
                cluster.resize(job, 2, "fast")
            for nodes, node_type in ((2, "slow"), (0, ""), (1, "fast")):
                cluster.resize(job, nodes, node_type)
                steps = job.step + 10
                while job.current() and job.step < steps or job.nodes() != nodes:
                    cluster.poll()
                    time.sleep(0.01)
            cluster.close()
            self.assertEqual([(a.node_type, a.slots) for a in job.attempts], [("slow", [1, 2]), ("fast", [0])])
            slow, fast = ((a.last_at - a.begun) / (a.last_step - a.first_step) for a in job.attempts)
            self.assertGreaterEqual(slow, 0.1 - 1e-6)
            self.assertGreaterEqual(fast, 0.02 - 1e-6)


class CheckTest(unittest.TestCase):
    """The gate fails for each fault that it looks for."""

    def test_wrong_times(self) -> None:
        good = {"total-time": 9.0, "max-min": 11.0, "fifo": 15.0}
        self.assertEqual(check.wrong_times(good, {"total-time": 9.8, "max-min": 10.0, "fifo": 13.6}), [])
        for policy in good:
            self.assertEqual(len(check.wrong_times(good, {**good, policy: 1.11 * good[policy]})), 1)
            self.assertEqual(len(check.wrong_times(good, {**good, policy: 0.89 * good[policy]})), 1)
        self.assertEqual(len(check.wrong_times({**good, "total-time": 11.0}, {**good, "total-time": 11.0})), 1)
        self.assertEqual(len(check.wrong_times(good, {**good, "fifo": float("nan")})), 1)
        self.assertEqual(check.wrong_times({"total-time": 9.0, "type-kept": 11.0}, {}), [])
        self.assertEqual(len(check.wrong_times({"total-time": 9.0, "type-kept": 8.0}, {})), 1)

    def test_wrong_jobs(self) -> None:
        job = jobs.Job("a", 0.0, MODELS[0], 1, 7)
        saved = {"step": 7, "sum": check.expected(7)}
        for wrong, peak, checkpoint in ((0, 8, saved), (1, 9, saved), (1, 8, {**saved, "step": 6}), (1, 8, {**saved, "sum": 1}), (1, 8, None)):
            result = Result("fifo", {}, {}, {"a": checkpoint} if checkpoint else {}, peak, 0, [], 0.0)
            self.assertEqual(len(check.wrong_jobs(result, [job], 8)), wrong)


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class TorchTest(unittest.TestCase):
    """Trains in processes, because gloo has one group per process. They are forked, as by the fork server."""

    @classmethod
    def setUpClass(cls) -> None:
        from testbed import models

        models.warm_up()

    def train(self, model: str, world: int, until: int, steps: int, directory: str) -> float:
        """Trains from the last checkpoint up to a step on some nodes, and returns the loss."""
        context = multiprocessing.get_context("fork")
        ranks = []
        for rank in range(world):
            fields = spec(directory, variant="torch", model=model, steps=steps, rank=rank, world=world, lock=os.path.join(directory, f"slot-{rank}"))
            fields["rendezvous"] += f"-{until}"
            cores = sorted(os.sched_getaffinity(0))
            fields["core"] = cores[rank % len(cores)]
            ranks.append(context.Process(target=_train, args=(fields, until)))
            ranks[-1].start()
        for process in ranks:
            process.join()
            self.assertEqual(process.exitcode, 0)
        return worker.load(spec(directory))["loss"]

    def test_device(self) -> None:
        from testbed import models

        self.assertEqual(models.device(3).type, "cuda" if models.torch.cuda.is_available() else "cpu")
        with mock.patch("torch.cuda.is_available", return_value=True), mock.patch("torch.cuda.device_count", return_value=2):
            self.assertEqual([str(models.device(slot)) for slot in range(3)], ["cuda:0", "cuda:1", "cuda:0"])

    def test_examples(self) -> None:
        from testbed import models

        found = []
        for step_s in (0.0, 0.01, 0.2):
            with mock.patch.object(models, "STEP_S", step_s):
                found.append(models.find_examples("cnn"))
        self.assertEqual(found[0], 1)
        self.assertLess(2 * found[1], found[2])

    def test_warm_up_uses_no_gpu(self) -> None:
        """A process that forks workers for GPUs must not use one, and must not compute gradients with such a PyTorch."""
        from testbed import models

        with mock.patch("torch.backends.cuda.is_built", return_value=True), mock.patch("torch.Tensor.backward") as backward:
            with mock.patch("torch.cuda.is_available") as available, mock.patch("torch.cuda.device_count") as count:
                models.warm_up()
        for called in (backward, available, count):
            called.assert_not_called()

    def test_loss_does_not_depend_on_nodes(self) -> None:
        for model in ("mlp", "cnn", "transformer"):
            with tempfile.TemporaryDirectory() as directory:
                once = self.train(model, 1, 4, 4, directory)
            with tempfile.TemporaryDirectory() as directory:
                self.train(model, 2, 2, 4, directory)
                resized = self.train(model, 1, 4, 4, directory)
            self.assertGreater(once, 0)
            self.assertAlmostEqual(resized / once, 1, delta=1e-3, msg=model)


def _train(fields: Dict[str, Any], until: int) -> None:
    """Runs a worker in a process of its own. It is stopped at a step, as if SIGTERM arrived then."""
    import socket

    from testbed import models

    step = models.TorchModel.step

    def stopping(self: Any, number: int, stop: bool) -> Any:
        # Rank 0 alone is stopped, and the other ranks follow.
        return step(self, number, stop or fields["rank"] == 0 and number + 1 == until)

    models.TorchModel.step = stopping
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reports:
        if fields["rank"] == 0:
            reports.bind(fields["reports"])
        while not os.path.exists(fields["reports"]):
            time.sleep(0.01)
        worker.run(fields)
        if fields["rank"] == 0:
            os.unlink(fields["reports"])


if __name__ == "__main__":
    as_program()
