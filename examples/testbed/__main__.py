"""The command line: python3 -m testbed run|calibrate|check. See docs/evaluation/testbed.md."""

import argparse
import concurrent.futures
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import List, Tuple

from testbed import calibrate, check, jobs, predict, scheduler
from testbed.cluster import CHECKPOINT_STEPS, Cluster
from testbed.policies import Policy
from testbed.scheduler import Result
from testbed.server import Server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main() -> int:
    """Runs a command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m testbed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help in (
        ("run", "run a workload under policies, and compare with the simulator"),
        ("calibrate", "measure steps, starts and stops of the models on a full machine"),
        ("check", "run the plain variant with and without faults, and fail if a result is wrong"),
    ):
        command = commands.add_parser(name, help=help)
        command.add_argument("--variant", choices=("plain", "torch"), default="plain")
        command.add_argument("--nodes", type=int, help="nodes of the pool (default 8; torch: one per GPU, or one per core but one)")
        command.add_argument("--start", choices=("fork", "exec"), default="fork", help="how workers start")
        command.add_argument("--grace", type=float, default=20.0, help="seconds from SIGTERM to SIGKILL")
        command.add_argument("--elastalloc", default=os.path.join(ROOT, "bin", "elastalloc"), help="program of the server")
        command.add_argument("--lab", default=os.path.join(ROOT, "bin", "elastalloc-lab"), help="program of the simulator")
        command.add_argument("--calibration", default="", help="file of calibrate; torch needs one")
        if name != "calibrate":
            command.add_argument("--policy", help="policies, separated by commas (default all)")
            command.add_argument("--slow-nodes", type=int, default=0, help="nodes of a second, slower node type; only the plain variant has them")
            command.add_argument("--jobs", type=int, default=20)
            command.add_argument("--seed", type=int, default=1)
            command.add_argument("--load", type=float, default=0.9, help="load of the pool if no job is resized")
    arguments = parser.parse_args()
    if arguments.nodes is None:
        arguments.nodes = 8 if arguments.variant == "plain" else gpus() or max(1, len(os.sched_getaffinity(0)) - 1)
    if arguments.command != "calibrate":
        if not 0 <= arguments.slow_nodes < arguments.nodes:
            parser.error(f"--slow-nodes is {arguments.slow_nodes}; must be from 0 to {arguments.nodes - 1}, one less than --nodes")
        if arguments.slow_nodes and arguments.variant != "plain":
            parser.error(f"--slow-nodes is {arguments.slow_nodes}; must be 0 with --variant {arguments.variant}")
        valid = Policy.WITH_TYPES if arguments.slow_nodes else Policy.NAMES
        arguments.policy = arguments.policy or ",".join(valid)
        unknown = set(arguments.policy.split(",")) - set(valid)
        if unknown:
            parser.error(f"--policy has {', '.join(sorted(unknown))}; must be of {', '.join(valid)}")
    if arguments.command == "calibrate":
        if not arguments.calibration:
            parser.error("--calibration is empty; must be the file to write")
        return calibrate.main(arguments)
    if arguments.calibration:
        models = jobs.read_models(arguments.calibration)
    elif arguments.variant == "plain":
        models = jobs.plain_models(arguments.nodes)
    else:
        parser.error("--calibration is empty; must be the file of python3 -m testbed calibrate --variant torch")
    for model in models:
        if sorted(model.step_s) != jobs.sizes(arguments.nodes):
            parser.error(f"--calibration has other sizes than a pool of {arguments.nodes} nodes")
    if arguments.command == "check":
        return check.main(arguments, models)
    directory = tempfile.mkdtemp(prefix="testbed-")
    workload = jobs.generate(models, arguments.jobs, arguments.nodes, arguments.seed, arguments.load)
    results, _ = run(arguments, workload, directory)
    print(report(arguments, workload, results))
    shutil.rmtree(directory)
    return 0


def gpus() -> int:
    """Returns the number of GPUs that PyTorch finds. A process of its own counts them, because one that has used a GPU
    cannot fork workers that use one."""
    count = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(count.stdout)


def run(arguments: argparse.Namespace, workload: List[jobs.Job], directory: str) -> Tuple[List[Result], List[str]]:
    """Runs a workload under each policy. Plain workers only sleep, so their runs are concurrent. It returns the
    results and the recordings of the server."""
    server = Server(arguments.elastalloc, directory)
    clusters = []

    def one(name: str) -> Result:
        folder = os.path.join(directory, name)
        os.mkdir(folder)
        checkpoints = CHECKPOINT_STEPS[arguments.variant]
        cluster = Cluster(folder, arguments.nodes, arguments.variant, arguments.start, arguments.grace, checkpoints, arguments.slow_nodes)
        clusters.append(cluster)
        try:
            return scheduler.run(cluster, workload, name, server.target)
        finally:
            cluster.close()

    policies = arguments.policy.split(",")
    try:
        server.wait()
        with concurrent.futures.ThreadPoolExecutor(len(policies) if arguments.variant == "plain" else 1) as pool:
            return list(pool.map(one, policies)), server.recordings
    finally:
        server.stop()


def report(arguments: argparse.Namespace, workload: List[jobs.Job], results: List[Result]) -> str:
    """Returns the tables of a run."""
    policies = [result.policy for result in results]
    types = results[0].types
    before = predict.predict(arguments.lab, workload, types, policies, {})
    pool = " and ".join(f"{nodes} {name} nodes".replace("  ", " ") for name, nodes in types.items())
    lines = [
        f"{len(workload)} jobs on {pool}, variant {arguments.variant}. Mean job completion time in seconds; lower is better.",
        "",
        f"{'policy':12} {'measured':>9} {'predicted':>10} {'':>7} {'with the times of the run':>26} {'':>7} {'steps':>6} {'calls':>6} {'median ms':>10}",
    ]
    after = {r.policy: predict.predict(arguments.lab, workload, types, [r.policy], predict.measure(r))[r.policy] for r in results}
    for result in results:
        measured = statistics.mean(result.jct_s.values())
        means = [statistics.mean(times[result.policy].values()) for times in (before, after)]
        columns = " ".join(f"{mean:>{width}.2f} {100 * (mean / measured - 1):>+6.1f}%" for mean, width in zip(means, (10, 26)))
        median = f"{statistics.median(result.calls_ms):.1f}" if result.calls_ms else "-"
        lines.append(f"{result.policy:12} {measured:>9.2f} {columns} {result.steps:>6} {len(result.calls_ms):>6} {median:>10}")
    lines += ["", "Job completion time in seconds, measured and predicted before the run, and nodes in the course of the job.", ""]
    lines.append(f"{'job':8} {'submit':>7} {'model':12}" + "".join(f"{policy:>24}" for policy in policies))
    for job in workload:
        row = f"{job.id:8} {job.submit_s:>7.1f} {job.model.name:12}"
        for result in results:
            nodes = "-".join(f"{len(a.slots)}{a.node_type[:1]}" for a in result.states[job.id].attempts)
            row += f"{result.jct_s[job.id]:>8.1f} {before[result.policy][job.id]:>5.1f} {nodes:>9}"
        lines.append(row)
    losses = loss_difference(results)
    if arguments.variant == "torch" and len(results) > 1:
        lines += ["", f"The final losses of a job differ by at most {100 * losses:.2f}% between policies."]
    return "\n".join(lines)


def loss_difference(results: List[Result]) -> float:
    """Returns the largest relative difference of the final losses of a job between policies."""
    largest = 0.0
    for id in results[0].saved:
        losses = [result.saved[id]["loss"] for result in results]
        largest = max(largest, (max(losses) - min(losses)) / max(1e-12, abs(min(losses))))
    return largest


if __name__ == "__main__":
    sys.exit(main())
