"""The gate of the plain variant, `make check-testbed`.

No limit depends on how busy the machine is. Workers sleep until given times, so a late wake-up does not delay the next
one, and the simulation that counts has the times of steps and restarts that were measured in the run.
"""

import argparse
import concurrent.futures
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
from typing import Dict, List, Optional, Sequence, Tuple

from testbed import jobs, predict, worker
from testbed.cluster import Cluster
from testbed.policies import Policy
from testbed.scheduler import Result, Scheduler, run
from testbed.server import Server

LARGEST_ERROR = 0.1  # of the simulated mean job completion time


def expected(steps: int) -> int:
    """Returns the result of a job of the plain variant, computed at once."""
    return sum(worker.plain_data(step, index) for step in range(steps) for index in range(worker.MICRO_BATCHES))


def wrong_jobs(result: Result, workload: List[jobs.Job], nodes: int) -> List[str]:
    """Returns what is wrong with the jobs of a run."""
    wrong = []
    if result.peak > nodes:
        wrong.append(f"{result.policy}: jobs used {result.peak} of {nodes} nodes")
    for job in workload:
        saved = result.saved.get(job.id)
        if not saved or saved["step"] != job.steps:
            wrong.append(f"{result.policy}: {job.id} has the checkpoint {saved}; must be at step {job.steps}")
        elif saved["sum"] != expected(job.steps):
            wrong.append(f"{result.policy}: {job.id} has the result {saved['sum']}; must be {expected(job.steps)}: steps were lost or repeated")
    return wrong


def wrong_times(means: Dict[str, float], simulated: Dict[str, float]) -> List[str]:
    """Returns what is wrong with the mean job completion times of the policies: one that differs from the simulation, if
    it is in simulated, and a wrong order."""
    wrong = []
    for policy in simulated:
        mean = means[policy]
        error = simulated[policy] / mean - 1
        if not abs(error) <= LARGEST_ERROR:
            wrong.append(
                f"{policy}: the mean is {mean:.2f} s, and {simulated[policy]:.2f} s in the simulation ({100 * error:+.1f}%); "
                f"must be within {100 * LARGEST_ERROR:.0f}%"
            )
    for other in {"max-min", "type-kept"} & set(means):
        if not means["total-time"] < means[other]:
            wrong.append(f"the mean of total-time is {means['total-time']:.2f} s; must be below that of {other}, {means[other]:.2f} s")
    return wrong


def fault_jobs(models: List[jobs.Model]) -> List[jobs.Job]:
    """Returns the jobs of the run with faults. The first one ignores SIGTERM, and is alone until others arrive, which
    then need its nodes."""
    first = jobs.Job("stubborn", 0.0, models[0], 1, 300, ignores_sigterm=True)
    return [first] + [jobs.Job(f"job-{n}", 5.0 + 0.5 * n, models[n % 3], 1 + n % 2, 80 + 20 * (n % 3)) for n in range(6)]


class Faults:
    """Kills the server at the first completion and a worker of another job after it, and starts the server again once a
    call has failed. Each waits for the one before, so none depends on times."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.killed_server_at: Optional[int] = None  # failed calls when the server was killed
        self.restarted_server = False
        self.killed_job = ""

    def observe(self, scheduler: Scheduler) -> None:
        """Is called in each pass of the scheduler."""
        result = scheduler.result
        if self.killed_server_at is None:
            if result.jct_s:
                self.killed_server_at = result.failed_calls
                self._server.kill()
                os.unlink(self._server.target.replace("unix://", ""))
        elif not self.restarted_server:
            if result.failed_calls > self.killed_server_at:
                self._server.start()
                self.restarted_server = True
        elif not self.killed_job:
            for state in scheduler.cluster.states.values():
                attempt = state.current()
                training = attempt and attempt.stopped is None and attempt.last_step > attempt.first_step + 2
                if training and not state.job.ignores_sigterm and state.job.steps - state.step > 5:
                    scheduler.cluster.signal(max(attempt.running), signal.SIGKILL)
                    self.killed_job = state.job.id
                    return


def run_with_faults(arguments: argparse.Namespace, models: List[jobs.Model], directory: str) -> List[str]:
    """Runs jobs while a worker and the server are killed and one job ignores SIGTERM. It returns what is wrong."""
    os.mkdir(directory)
    server = Server(arguments.elastalloc, directory)
    cluster = Cluster(directory, arguments.nodes, "plain", arguments.start, grace=2.0, checkpoint_steps=10)
    faults, workload = Faults(server), fault_jobs(models)
    try:
        server.wait()
        result = run(cluster, workload, "total-time", server.target, observe=faults.observe)
    finally:
        cluster.close()
        if server.running():
            server.stop()
    wrong = [f"with faults: {text}" for text in wrong_jobs(result, workload, arguments.nodes)]
    states = result.states
    if not any(attempt.killed for attempt in states["stubborn"].attempts):
        wrong.append("with faults: the job that ignores SIGTERM was never killed")
    if not faults.restarted_server:
        wrong.append("with faults: no call failed while the server was killed")
    if not faults.killed_job:
        wrong.append("with faults: no worker was killed")
    elif not any(-signal.SIGKILL in attempt.exits for attempt in states[faults.killed_job].attempts):
        wrong.append(f"with faults: no worker of {faults.killed_job} was killed")
    if not wrong:
        print(
            f"with faults: {len(result.jct_s)} jobs completed; {result.failed_calls} calls failed while the server was down; "
            f"a worker of {faults.killed_job} was killed; the job that ignores SIGTERM was killed after its grace period"
        )
    return wrong


def main(arguments: argparse.Namespace, models: List[jobs.Model]) -> int:
    """Runs the gate and returns the exit status."""
    from testbed import __main__ as command

    arguments.jobs, arguments.seed, arguments.load = 12, 1, 1.1
    directory = tempfile.mkdtemp(prefix="testbed-")
    workload = jobs.generate(models, arguments.jobs, arguments.nodes, arguments.seed, arguments.load)

    def run_policies(name: str, policies: Sequence[str], slow_nodes: int) -> Tuple[List[Result], List[str]]:
        own, folder = argparse.Namespace(**vars(arguments)), os.path.join(directory, name)
        own.policy, own.slow_nodes = ",".join(policies), slow_nodes
        os.mkdir(folder)
        return command.run(own, workload, folder)

    with concurrent.futures.ThreadPoolExecutor() as pool:  # At the same time: all mostly sleep.
        faulty = pool.submit(run_with_faults, arguments, models, os.path.join(directory, "faults"))
        typed = pool.submit(run_policies, "types", Policy.WITH_TYPES, arguments.nodes // 2)
        runs = [run_policies("policies", Policy.NAMES, 0), typed.result()]
        wrong = faulty.result()
    recordings = []
    for results, recorded in runs:
        recordings += recorded
        print(command.report(arguments, workload, results), end="\n\n")
        means, simulated = {}, {}
        # With several node types, only the order counts: a job that moves waits until other jobs have released nodes of
        # the other type, which takes no time in the simulation.
        for result in results:
            wrong += wrong_jobs(result, workload, arguments.nodes)
            means[result.policy] = statistics.mean(result.jct_s.values())
            if len(result.types) == 1:
                times = predict.predict(arguments.lab, workload, result.types, [result.policy], predict.measure(result))
                simulated[result.policy] = statistics.mean(times[result.policy].values())
            if result.failed_calls:
                wrong.append(f"{result.policy}: {result.failed_calls} calls failed")
        wrong += wrong_times(means, simulated)
    for recording in recordings:
        audit = subprocess.run([arguments.lab, "audit", "--recording", recording], capture_output=True, text=True)
        if audit.returncode:
            wrong.append(f"the audit of {recording} failed:\n{audit.stdout}{audit.stderr}")
    for text in wrong:
        print(f"FAILED: {text}")
    if wrong:
        print(f"The logs of the workers are in {directory}")
        return 1
    shutil.rmtree(directory)
    return 0
