"""Tests reconcile.py with simulated output of Slurm's commands."""

import contextlib
import io
import unittest
from unittest import mock

import reconcile

# A state as sinfo prints it in the field StateComplete, its class, and a part of the reason. The states
# up to the empty line were printed by Slurm 22.05.
STATES = """
    idle                                accepting  idle
    allocated                           accepting  allocated
    allocated+drain                     retaining  is draining
    idle+drain                          retaining  is draining
    allocated+fail                      retaining  is expected to fail
    idle+fail                           retaining  is expected to fail
    allocated+maintenance+reserved      retaining  is reserved for maintenance
    allocated+reserved                  retaining  is reserved
    allocated+not_responding            retaining  does not respond
    idle+not_responding                 retaining  does not respond
    idle+completing                     retaining  is being left by a job
    idle+completing+not_responding      retaining  is being left by a job, does not respond
    down                                gone       is down
    down+drain                          gone       is down

    MIXED                               accepting  mixed
    IDLE+CLOUD+POWERED_DOWN             accepting  idle
    IDLE+PLANNED                        accepting  idle
    mixed+drain                         retaining  is draining
    allocated+reboot_requested          retaining  has the flag reboot_requested
    idle+powering_down                  retaining  has the flag powering_down
    idle+drain+invalid_reg              retaining  has the flag invalid_reg
    allocated+some_new_flag             retaining  has the flag some_new_flag
    unknown                             retaining  is unknown
    some_new_state                      retaining  is some_new_state
    down+not_responding                 gone       is down
    error                               gone       is error
    future                              gone       is future
"""


class Slurm:
    """Simulates Slurm's commands for nodes by name and for lines of squeue."""

    def __init__(self, nodes, *jobs):
        self.nodes, self.jobs = nodes, jobs

    def run(self, *command, **_):
        if command[0] == "sinfo":
            return "".join(f"{name:256}{state:256}\n" for name, state in self.nodes.items())
        if command[0] == "squeue":
            return "".join(job + "\n" for job in self.jobs)
        if command[:3] == ("scontrol", "show", "hostnames"):
            low, _, high = command[3].removeprefix("node").strip("[]").partition("-")
            return "".join(f"node{i}\n" for i in range(int(low), int(high or low) + 1))
        raise AssertionError(command)


def nodes(**states):
    """Returns eight nodes with jobs, and the states of some."""
    return {f"node{i}": "allocated" for i in range(1, 9)} | states


def job(id, state, count, occupied, comment="sizes=1-8 restart=60 since=1 left=3600 on=1"):
    return f"{id}|{state}|{count}|{occupied}|{comment}"


A = job(1, "RUNNING", 4, "node[1-4]")
B = job(2, "RUNNING", 4, "node[5-8]")
C = job(3, "PENDING", 4, "")


class Classify(unittest.TestCase):
    def test_states(self):
        for line in filter(None, map(str.strip, STATES.splitlines())):
            state, kind, reason = line.split(None, 2)
            with self.subTest(state):
                got = reconcile.classify(state)
                self.assertEqual(got[0], kind)
                self.assertIn(reason, got[1])


class Snapshot(unittest.TestCase):
    def snapshot(self, nodes, *jobs):
        """Returns the nodes and the jobs of the snapshot, with the nodes of each job, and the printed messages."""
        with mock.patch.object(reconcile, "run", Slurm(nodes, *jobs).run), \
                contextlib.redirect_stderr(io.StringIO()) as printed:
            snapshot = reconcile.snapshot()
        return snapshot["totalNodes"], {job["id"]: job["currentNodes"] for job in snapshot["jobs"]}, printed.getvalue()

    def test_without_flags(self):
        self.assertEqual(self.snapshot(nodes(), A, B, C), (8, {"1": 4, "2": 4, "3": 0}, ""))

    def test_retaining_node(self):
        # The three accepting nodes of job 1 are no capacity for others, and its retaining node costs none.
        for state in "allocated+drain", "allocated+fail", "allocated+maintenance+reserved", "allocated+not_responding":
            with self.subTest(state):
                total, jobs, printed = self.snapshot(nodes(node3=state), A, B, C)
                self.assertEqual((total, jobs), (4, {"2": 4, "3": 0}))
                self.assertRegex(printed, r"^1 keeps its nodes: node3 (is|does) [^;]+\n$")

    def test_retaining_node_without_job(self):
        for state in "idle+drain", "idle+fail", "idle+maintenance+reserved", "idle+not_responding", "down", "down+not_responding":
            with self.subTest(state):
                self.assertEqual(self.snapshot(nodes(node8=state), A, C), (7, {"1": 4, "3": 0}, ""))

    def test_all_nodes_retaining(self):
        total, jobs, printed = self.snapshot({name: "allocated+drain" for name in nodes()}, A, B, C)
        self.assertEqual((total, jobs), (0, {"3": 0}))
        self.assertEqual(printed.count("keeps its nodes"), 2)

    def test_gone_node(self):
        # Slurm requeues the job. Until then, the job is excluded, and its other nodes are no capacity.
        total, jobs, printed = self.snapshot(nodes(node3="down"), A, B)
        self.assertEqual((total, jobs), (4, {"2": 4}))
        self.assertEqual(printed, "1 keeps its nodes: node3 is down\n")
        waits = job(1, "PENDING", 4, "")
        self.assertEqual(self.snapshot(nodes(node1="idle", node2="idle", node3="down", node4="idle"), waits, B),
                         (7, {"1": 0, "2": 4}, ""))

    def test_node_returns(self):
        self.assertEqual(self.snapshot(nodes(node3="allocated"), A, B), (8, {"1": 4, "2": 4}, ""))

    def test_node_of_another_partition(self):
        total, jobs, printed = self.snapshot({f"node{i}": "allocated" for i in range(2, 9)}, A, B)
        self.assertEqual((total, jobs), (4, {"2": 4}))
        self.assertEqual(printed, "1 keeps its nodes: node1 is not in the partition\n")

    def test_excluded_jobs(self):
        # A job that starts, is suspended or has a bad comment occupies its nodes.
        for other in job(1, "CONFIGURING", 4, "node[1-4]"), job(1, "SUSPENDED", 4, "node[1-4]"), \
                job(1, "RUNNING", 4, "node[1-4]", "sizes=few"), job(1, "RUNNING", 4, "node[1-4]", ""):
            with self.subTest(other):
                self.assertEqual(self.snapshot(nodes(), other, B)[:2], (4, {"2": 4}))
        # Its retaining node is subtracted once.
        bad = job(1, "RUNNING", 4, "node[1-4]", "sizes=few")
        self.assertEqual(self.snapshot(nodes(node1="allocated+drain"), bad, B)[:2], (4, {"2": 4}))


class Restarts(unittest.TestCase):
    def test_starts(self):
        # Every start of a job but the first one is a restart. The job reports how long it has trained.
        comment = "sizes=1-8 restart=60 since=1 left=3600 on=1"
        want = {None: [], 0: ["0s"], 100: ["0s", "100s"], 250: ["0s", "150s", "250s"], 300: ["0s", "50s", "200s"]}
        for trained, recent in want.items():
            if trained is not None:
                comment = comment.split(" trained=")[0].split(" left=")[0] + f" trained={trained} left=3600 on=1"  # as train.sh does
            comment = reconcile.started(comment)
            self.assertEqual(reconcile.describe("1", "RUNNING", 4, comment)[1]["recentRestarts"], recent)
        running = reconcile.describe("1", "RUNNING", 4, comment.replace("trained=300", "trained=400"))[1]
        self.assertEqual((running["recentRestarts"], running["minNodes"]), (["100s", "150s", "300s"], 1))

    def test_forged(self):
        # Times are legal whatever a user writes, or the job is excluded.
        comment = "restarts=1,50,3 trained=20 sizes=1-8 restart=60 since=1 left=3600 on=1"
        self.assertEqual(reconcile.describe("1", "RUNNING", 4, comment)[1]["recentRestarts"], ["0s", "17s", "19s"])
        with self.assertRaises(ValueError):
            reconcile.describe("1", "RUNNING", 4, comment.replace("50", "soon"))


if __name__ == "__main__":
    unittest.main()
