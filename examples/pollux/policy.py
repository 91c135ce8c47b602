#!/usr/bin/env python3
"""Runs elastalloc as a policy of the simulator of Pollux (OSDI 2021).

    git clone --branch osdi21-artifact https://github.com/petuum/adaptdl
    bin/elastalloc serve &
    PYTHONPATH=$(echo bin/elastalloc-*.whl) /usr/bin/python3 examples/pollux/policy.py \\
        --simulator adaptdl/simulator --policy elastalloc --load 1.0 --out results.jsonl

The simulator is not changed: it calls optimize() of a policy once per interval, with its
running and waiting jobs, and applies the allocations that optimize() returns. Each GPU is one
node of elastalloc. docs/evaluation/pollux.md describes the experiment and its results.
"""

import argparse
import contextlib
import io
import itertools
import json
import math
import pathlib
import random
import statistics
import sys
import time
import types
import warnings
from bisect import bisect_right
from typing import Callable, Dict, List, Optional, Tuple
from unittest import mock

from elastalloc import Client, pb
from elastalloc.eta import Estimator

GPUS_PER_NODE = 4
RESTART = 30  # seconds without progress after each change of a job's GPUs
# Legal sizes in GPUs. elastalloc takes at most 32 per job.
SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, *range(20, 65, 4)]
BATCH_SIZES = 20  # candidates for the best goodput
GPU = "nvidia.com/gpu"


class Curves:
    """Knows the true times of all jobs, from the measurements of the simulator.

    With a fixed batch size, a job computes with the batch size of the workload file on any
    number of GPUs. Without, it uses the batch size of the best goodput on each number of GPUs.
    """

    def __init__(self) -> None:
        self._known: Dict[Tuple, Tuple[List[int], List[List[float]]]] = {}

    def left(self, job) -> Tuple[List[int], List[float]]:
        """Returns the legal sizes of a job and the run time that it has left on each."""
        sizes, curves = self._from_epochs(job.application, job.target_batch_size)
        start = job.application.get_progress(job.epoch)
        end = job.application.get_progress(job.epoch + 1)
        done = (job.progress - start) / (end - start) if end > start else 1.0
        now, then = job.epoch, job.epoch + 1
        times = [left[now] + done * (left[then] - left[now]) for left in curves]
        return sizes, [max(time, 1.0) for time in times]

    def _from_epochs(self, app, fixed: Optional[int]) -> Tuple[List[int], List[List[float]]]:
        """Returns the legal sizes and, for each, the time from the start of each epoch to the
        end of the last one."""
        key = app.name, fixed
        if key not in self._known:
            last = app.get_completion_epoch(fixed or app.init_batch_size)
            sizes = [k for k in SIZES if k <= most_gpus(app, fixed)]
            curves = []
            for k in sizes:
                times = self._durations(app, k, fixed)[: last + 1]
                curves.append([sum(times[epoch:]) for epoch in range(len(times) + 1)])
            self._known[key] = sizes, curves
        return self._known[key]

    def _durations(self, app, gpus: int, fixed: Optional[int]) -> List[float]:
        choices = []
        for batch in [fixed] if fixed else candidates(app, gpus):
            local, accumulation = split(app, batch, gpus)
            batch = gpus * local * (accumulation + 1)
            if batch < app.init_batch_size or batch > app.max_batch_size:
                continue
            step, sync = app.get_throughput(packed(gpus), local)
            choices.append((batch, step + (step - sync) * accumulation))
        durations = []
        for epoch in range(app.max_epochs):
            work = app.get_progress(epoch + 1) - app.get_progress(epoch)
            durations.append(min(work * step / gain(app, batch, epoch) for batch, step in choices))
        return durations


def most_gpus(app, fixed: Optional[int]) -> int:
    """Returns the most GPUs that a job can use: at least the smallest batch on each."""
    if app.name == "ncf":
        return 1
    return max(1, min(SIZES[-1], (fixed or app.max_batch_size) // app.min_local_bsz))


def candidates(app, gpus: int) -> List[float]:
    """Returns batch sizes from the smallest to the largest, as a geometric sequence."""
    smallest = max(app.init_batch_size, app.min_local_bsz * gpus)
    step = (app.max_batch_size / smallest) ** (1 / (BATCH_SIZES - 1))
    return [smallest * step**i for i in range(BATCH_SIZES)]


def split(app, batch: float, gpus: int) -> Tuple[int, int]:
    """Returns the batch size of a GPU and the accumulation steps, as the simulator does."""
    share = math.ceil(batch / gpus - 1e-8)
    accumulation = math.ceil(share / app.max_local_bsz - 1e-8) - 1
    if gpus == 1 and batch > app.init_batch_size:
        accumulation = max(1, accumulation)
    local = math.ceil(share / (accumulation + 1) - 1e-8)
    return min(local, int(app.max_batch_size / (gpus * (accumulation + 1)))), accumulation


def gain(app, batch: int, epoch: int) -> float:
    """Returns the progress of one step, in steps of the smallest batch size."""
    square, variance = app.get_grad_stats(batch, epoch)
    return (variance + square) / (variance * app.init_batch_size / batch + square)


def packed(gpus: int) -> Tuple[int, ...]:
    """Returns the GPUs on each node if a job uses as few nodes as possible."""
    whole, rest = divmod(gpus, GPUS_PER_NODE)
    return (GPUS_PER_NODE,) * whole + ((rest,) if rest else ())


def learned(job, info) -> Tuple[List[int], List[float]]:
    """Returns the sizes that Pollux would allow a job now, and the speed on each as the job has
    learned it: at most twice the GPUs that it has had, the rest extrapolated by its fit."""
    app, fixed = job.application, job.target_batch_size
    most = min(most_gpus(app, fixed), max(1, 2 * job.max_profiled_replicas))
    sizes = [k for k in SIZES if k <= most]
    if job.perf_params is None:
        return sizes, [float(k) for k in sizes]
    if fixed is None:
        import numpy as np  # The simulator's; one call is faster than one per size.

        nodes = np.array([len(packed(k)) for k in sizes])
        return sizes, list(map(float, info.speedup_fn(nodes, np.array(sizes))))
    throughput = job.get_goodput_fn().throughput
    rates = [float(throughput(len(packed(k)), k, *split(app, fixed, k))) for k in sizes]
    return sizes, [rate / rates[0] for rate in rates]


def rising(sizes: List[int], speeds: List[float]) -> Tuple[List[int], List[float]]:
    """Leaves out the sizes on which a job is no faster than on a smaller one."""
    kept = [(sizes[0], speeds[0])]
    for size, speed in zip(sizes[1:], speeds[1:]):
        if speed > kept[-1][1] * (1 + 1e-9):
            kept.append((size, speed))
    return [size for size, _ in kept], [speed for _, speed in kept]


def place(sizes: Dict[str, int], before: Dict[str, List[int]], free: Dict[int, int]):
    """Gives each job its GPUs. A job that keeps its size keeps its place; the others follow
    from the largest, each on whole nodes and then where the rest fits most tightly."""
    places = {key: gpus for key, gpus in before.items() if len(gpus) == sizes.get(key)}
    free = dict(free)
    for gpus in places.values():
        for node in gpus:
            free[node] -= 1
    for key in sorted(sizes.keys() - places.keys(), key=lambda key: (-sizes[key], key)):
        rest, taken = sizes[key], []
        while rest:
            fits = [node for node in free if free[node] >= min(rest, GPUS_PER_NODE)]
            node = (
                min(fits, key=lambda node: (free[node], node))
                if fits
                else max(free, key=lambda node: (free[node], -node))
            )
            count = min(rest, free[node])
            taken += [node] * count
            free[node] -= count
            rest -= count
        if taken:
            places[key] = taken
    return places


class Policy:
    """Sizes all jobs. Subclasses decide; this class keeps what they decide by.

    jobs returns all jobs of the simulator, as TiresiasPolicy gets a function that returns the time.
    """

    def __init__(self, jobs: Callable[[], list], speeds: str) -> None:
        self._jobs, self._speeds = jobs, speeds
        self._curves = Curves()
        self._now = 0
        self._gpus: Dict[str, int] = {}  # of each job since the last call
        self._changed: Dict[str, int] = {}  # when they changed last
        self.trained: Dict[str, int] = {}  # seconds with GPUs
        self.work: Dict[str, float] = {}  # work done, in seconds on one GPU
        self._curve: Dict[str, Tuple[List[int], List[float]]] = {}
        self.seconds: List[float] = []  # how long each decision took
        self.proven = 0

    def optimize(self, infos, nodes, before, _):
        """Is called by the simulator. infos are its active jobs by name."""
        everyone = {job.name: job for job in self._jobs()}
        jobs = {key: everyone[key] for key in infos}
        self._account(everyone)
        left = {}
        for key, job in jobs.items():
            sizes, times = self._curves.left(job)
            left[key] = times[0]
            if self._speeds == "given":
                # Rounded, so that jobs of one kind have the same speeds in all epochs.
                speeds = [round(times[0] / time, 9) for time in times]
                self._curve[key] = rising(sizes, speeds)
            else:
                self._curve[key] = rising(*learned(job, infos[key]))
        for key in [key for key in self._curve if key not in infos]:
            self.finished(key)
            del self._curve[key]
        free = {node: info.resources[GPU] for node, info in nodes.items()}
        sizes = self.decide(jobs, before, left, sum(free.values()))
        places = place({key: size for key, size in sizes.items() if size}, before, free)
        for key, gpus in places.items():
            if before.get(key) != gpus:
                self._changed[key] = self._now
        self._gpus = {key: len(gpus) for key, gpus in places.items()}
        return places, len(nodes)

    def _account(self, everyone) -> None:
        """Adds up what each job has done since the last call."""
        last, self._now = self._now, next(iter(everyone.values())).current_time
        for key, gpus in self._gpus.items():
            end = everyone[key].completion_time or self._now
            self.trained[key] = self.trained.get(key, 0) + end - last
            seconds = min(end - last, max(0, end - self._changed[key] - RESTART))
            sizes, speeds = self._curve[key]
            speed = speeds[bisect_right(sizes, gpus) - 1]
            self.work[key] = self.work.get(key, 0.0) + speed * seconds

    def decide(self, jobs, before, left: Dict[str, float], gpus: int) -> Dict[str, int]:
        raise NotImplementedError

    def finished(self, key: str) -> None:
        """Is called once for each job that has completed."""


class MaxMin(Policy):
    """Raises the slowest job first. It decides when the set of jobs or the largest size of one
    has changed; otherwise all jobs keep their GPUs."""

    _last: Dict[str, int] = {}

    def decide(self, jobs, before, left, gpus):
        allowed = {key: self._curve[key][0] for key in jobs}
        largest = {key: sizes[-1] for key, sizes in allowed.items()}
        if largest == self._last:
            return {key: len(before.get(key, [])) for key in jobs}
        self._last = largest
        level, growing = {}, set()
        for key in jobs:
            if gpus >= allowed[key][0]:
                level[key] = 0
                gpus -= allowed[key][0]
                growing.add(key)
        while growing:
            key = min(growing, key=lambda key: (self._curve[key][1][level[key]], key))
            sizes, at = allowed[key], level[key]
            if at + 1 == len(sizes) or sizes[at + 1] - sizes[at] > gpus:
                growing.remove(key)
                continue
            gpus -= sizes[at + 1] - sizes[at]
            level[key] += 1
        return {key: allowed[key][at] for key, at in level.items()}


class Elastalloc(Policy):
    """Calls a server of elastalloc.

    eta is "exact", the factor by which the user's estimate of a job's total work is typically
    wrong, or "unknown".
    """

    OPTIONS = pb.AllocateOptions(
        objective=pb.OBJECTIVE_TOTAL_TIME, admission=pb.ADMISSION_START_FIRST
    )

    def __init__(self, jobs, speeds, client: Client, eta: str, seed: int) -> None:
        super().__init__(jobs, speeds)
        self._client, self._eta, self._random = client, eta, random.Random(seed)
        self._estimator = Estimator()
        self._error = math.log(float(eta)) if eta not in ("exact", "unknown") else 0.0
        self._user_estimates: Dict[str, float] = {}  # the user's estimate, in seconds on one GPU

    def decide(self, jobs, before, left, gpus):
        snapshot = pb.Snapshot(total_nodes=gpus)
        for key, job in jobs.items():
            message = snapshot.jobs.add(id=key, current_nodes=len(before.get(key, [])))
            sizes, speeds = self._curve[key]
            message.allowed_nodes.extend(sizes)
            message.scaling.table.speeds.extend(speeds)
            message.max_nodes = sizes[-1]
            trained = self.trained.get(key, 0)
            message.training_time.FromSeconds(trained)
            message.waiting_time.FromSeconds(max(0, self._now - job.submission_time - trained))
            message.restart_time.FromSeconds(RESTART)
            self._estimate(key, left[key], message)
        begin = time.perf_counter()
        response = self._client.allocate(snapshot, self.OPTIONS)
        self.seconds.append(time.perf_counter() - begin)
        self.proven += response.report.reason == pb.REASON_OPTIMAL
        return {answer.job_id: answer.nodes for answer in response.allocations}

    def _estimate(self, key: str, left: float, message: pb.Job) -> None:
        if self._eta == "exact":
            message.remaining_eta.FromNanoseconds(round(left * 1e9))
            return
        known = {}
        if self._error:
            # Random, fixed when the job arrives, when left is its total work.
            if key not in self._user_estimates:
                self._user_estimates[key] = left * math.exp(self._error * self._random.gauss(0, 1))
            known = {"user_estimate": self._user_estimates[key], "user_error": self._error}
        self._estimator.estimate(work_done=self.work.get(key, 0.0), **known).set_on(message)

    def finished(self, key):
        known = {}
        if key in self._user_estimates:
            known = {"user_estimate": self._user_estimates[key], "user_error": self._error}
        self._estimator.completed(self.work.get(key, 0.0), **known)


def load_simulator(folder: str):
    """Imports the simulator. Pollux itself needs pymoo, and fitting needs autograd. Where they
    are missing, pymoo becomes empty modules, with which only Pollux cannot run, and the one
    function used of autograd is replaced by complex-step derivatives, exact up to rounding."""
    sys.path.insert(0, folder)
    warnings.simplefilter("ignore", FutureWarning)  # Thousands of them, all from pandas.
    try:
        import pymoo  # noqa: F401
    except ImportError:
        _empty(
            *("pymoo.model." + name for name in ("crossover", "mutation", "problem", "repair")),
            *("pymoo.optimize", "pymoo.algorithms.nsga2", "pymoo.operators.crossover.util"),
            "pymoo.util.nds.non_dominated_sorting",
        )
    try:
        import autograd  # noqa: F401
    except ImportError:
        import numpy as np

        fast = types.SimpleNamespace(**{**vars(np), "select": _select})
        sys.modules["autograd"] = types.SimpleNamespace(numpy=fast, grad=_gradient)
        import goodput

        goodput._rmse = lambda guess, true: np.sqrt(((guess - true) ** 2).mean(-1, keepdims=True))
    import applications
    import simulator

    # The same results, faster: speedups are not always called, and speedups, triangulations and
    # fits are often repeated.
    simulator.Job.get_speedup_fn = _lazy(simulator.Job.get_speedup_fn)
    applications.LinearNDInterpolator = _remember(applications.LinearNDInterpolator)
    simulator.fit_perf_params = _remember(simulator.fit_perf_params)
    return simulator


def _empty(*names: str) -> None:
    class Module(types.ModuleType):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return object

    for name in names:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            part, parent = ".".join(parts[:end]), ".".join(parts[: end - 1])
            if part not in sys.modules:
                sys.modules[part] = Module(part)
                if parent:
                    setattr(sys.modules[parent], parts[end - 1], sys.modules[part])


def _select(conditions, choices, default):
    """Does what numpy.select does, which takes most of the time of a fit."""
    import numpy as np

    for condition, choice in reversed(list(zip(conditions, choices))):
        default = np.where(condition, choice, default)
    return default


def _gradient(function: Callable) -> Callable:
    """Returns the gradient of a function that takes many points at once, one per column."""
    import numpy as np

    def gradient(x, *rest):
        points = np.repeat(np.array(x, dtype=complex)[:, None], len(x), axis=1)
        points += 1e-30j * np.eye(len(x))
        return function(points[:, :, None], *rest).imag.ravel() / 1e-30

    return gradient


def _lazy(get_speedup_fn: Callable) -> Callable:
    known = {}

    def lazy(job):
        def speedup(nodes, gpus):
            key = job.application.name, job.perf_params, job.grad_params, bytes(gpus.data)
            if key not in known:
                known[key] = get_speedup_fn(job)(nodes, gpus)
            return known[key]

        return speedup

    return lazy


def _remember(function: Callable) -> Callable:
    """Returns the same results as a function of arrays, and calls it once for equal arguments."""
    known = {}

    def remembered(*arrays):
        key = tuple(bytes(array.data) for array in arrays)
        if key not in known:
            known[key] = function(*arrays)
        return known[key]

    return remembered


def percentile(values: List[float], share: float) -> float:
    """Returns the smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def run(simulator, path: pathlib.Path, arguments, setting) -> dict:
    """Simulates one workload and returns the figures."""
    name, batch, speeds, eta = setting
    workload = simulator.pandas.read_csv(path)
    cluster = None
    if name == "optimus":
        policy = simulator.OptimusPolicy()
    elif name == "tiresias":
        policy = simulator.TiresiasPolicy(lambda: cluster.current_time)
    else:
        # What the simulator gives a job follows from the class of the policy: with Optimus a
        # fixed batch size, with Pollux one that the job adapts.
        base = simulator.OptimusPolicy if batch == "fixed" else simulator.PolluxPolicy
        own = MaxMin if name == "max-min" else Elastalloc
        more = () if name == "max-min" else (arguments.client, eta, arguments.seed)
        policy = type("Policy", (own, base), {})(
            lambda: cluster.jobs, speeds, *more
        )
    cluster = simulator.Cluster(workload, policy, arguments.nodes, num_gpus=GPUS_PER_NODE)
    begin = time.time()
    # Of all that is done with a fixed batch size, only learned speeds need fits, which are slow.
    fit = simulator.fit_perf_params
    if batch == "fixed" and speeds != "learned":
        fit = lambda *_: None  # noqa: E731
    with contextlib.redirect_stdout(io.StringIO()), mock.patch.object(
        simulator, "fit_perf_params", fit
    ):
        while not cluster.all_complete():
            cluster.step(arguments.interval)
    times = [job.completion_time - job.submission_time for job in cluster.jobs]
    result = {
        "policy": name,
        "batch": batch,
        "speeds": speeds,
        "eta": eta,
        "seed": arguments.seed,
        "workload": path.stem,
        "mean": statistics.mean(times),
        "p95": percentile(times, 0.95),
        "last": max(job.completion_time for job in cluster.jobs),
        "restarts": statistics.mean(job.num_restarts for job in cluster.jobs),
        "seconds": round(time.time() - begin, 1),
    }
    if name == "elastalloc":
        result["decisions"] = len(policy.seconds)
        result["proven"] = policy.proven
        result["median_ms"] = round(1e3 * statistics.median(policy.seconds), 2)
    return result


def workloads(folder: pathlib.Path, load: str) -> List[pathlib.Path]:
    name = "workloads" if load == "1.0" else "workloads-" + load
    return sorted((folder / name).glob("workload-*.csv"))


def published(folder: pathlib.Path, name: str, load: str):
    """Yields the published results of a policy of theirs in the form of run()."""
    summary = json.loads((folder / f"results-jobload/{name}-{load}/summary.json").read_text())
    for path in workloads(folder, load):
        times = summary["jcts"][path.stem]
        lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
        yield {
            "policy": name + " (published)",
            "load": load,
            "workload": path.stem,
            "mean": statistics.mean(times.values()),
            "p95": percentile(list(times.values()), 0.95),
            "last": max(int(line[1]) + times[line[0]] for line in lines),
        }


def table(folder: pathlib.Path, files: List[str]) -> None:
    """Prints the mean over the workloads of each setting, and the mean JCT of each workload."""
    rows = [json.loads(line) for file in files for line in open(file)]
    loads = sorted({row["load"] for row in rows})
    for name, load in itertools.product(("optimus", "tiresias", "pollux"), loads):
        rows += published(folder, name, load)
    groups: Dict[Tuple, Dict[str, dict]] = {}
    for row in rows:
        setting = (row.get(name, "") for name in ("batch", "speeds", "eta"))
        groups.setdefault((row["load"], row["policy"], *setting), {})[row["workload"]] = row
    means = {}
    columns = "load policy batch speeds ETA workloads mean p95 last restarts proven".split()
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for key, found in sorted(groups.items()):
        each = list(found.values())
        means[key] = {workload: row["mean"] for workload, row in found.items()}
        cells = [f"{statistics.mean(row[n] for row in each):,.0f}" for n in ("mean", "p95", "last")]
        cells += ["", ""]
        if "restarts" in each[0]:
            cells[-2] = f"{statistics.mean(row['restarts'] for row in each):.2f}"
        if "proven" in each[0]:
            proven, all_ = (sum(row[name] for row in each) for name in ("proven", "decisions"))
            cells[-1] = f"{proven:,} of {all_:,}"
        print("| " + " | ".join((*key, str(len(each)), *cells)) + " |")
    numbers = range(1, 9)
    print("\n| load | policy | batch | speeds | ETA | " + " | ".join(map(str, numbers)) + " |")
    print("|---" * 13 + "|")
    for key, found in means.items():
        cells = [f"{found.get(f'workload-{n}', math.nan):,.0f}" for n in numbers]
        print("| " + " | ".join((*key, *cells)) + " |")


def main() -> None:
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--simulator", required=True, help="folder simulator/ of a clone of theirs")
    add("--server", default="localhost:50051")
    add("--policy", nargs="+", default=["elastalloc"], help="optimus tiresias max-min elastalloc")
    add("--batch", nargs="+", default=["fixed"], help="fixed goodput")
    add("--speeds", nargs="+", default=["given"], help="given learned")
    add("--eta", nargs="+", default=["exact"], help="exact unknown, or a factor such as 2")
    add("--load", nargs="+", default=["1.0"], help="0.5 1.0 1.5 2.0")
    add("--workload", nargs="+", type=int, default=list(range(1, 9)))
    add("--seed", type=int, default=1, help="of the errors of ETAs")
    add("--interval", type=int, default=60, help="seconds between decisions")
    add("--nodes", type=int, default=16, help="nodes of 4 GPUs")
    add("--out", help="append a JSON object per simulation to this file")
    add("--table", nargs="+", help="print a table of such files instead")
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.simulator)
    if arguments.table:
        table(folder, arguments.table)
        return
    simulator = load_simulator(str(folder))
    done = set()
    with contextlib.closing(Client(arguments.server, timeout=30)) as arguments.client:
        for load, number, *setting in itertools.product(
            arguments.load,
            arguments.workload,
            arguments.policy,
            arguments.batch,
            arguments.speeds,
            arguments.eta,
        ):
            if setting[0] in ("optimus", "tiresias"):
                setting[1:] = ["fixed", "theirs", ""]
            elif setting[0] == "max-min":
                setting[3] = ""
            if (load, number, *setting) in done:
                continue
            done.add((load, number, *setting))
            (path,) = (p for p in workloads(folder, load) if p.stem == f"workload-{number}")
            result = {"load": load, **run(simulator, path, arguments, setting)}
            print(json.dumps(result), flush=True)
            if arguments.out:
                with open(arguments.out, "a") as out:
                    print(json.dumps(result), file=out)


if __name__ == "__main__":
    main()
