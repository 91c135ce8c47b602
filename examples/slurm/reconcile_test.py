"""Tests reconcile.py with simulated output of Slurm's commands."""

import contextlib
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
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
            mark = command[2].rpartition("%k")[2]
            return "".join("|".join([*job.split("|", 4)[:4], mark + job.split("|", 4)[4] + mark]) + "\n" for job in self.jobs)
        if command[:3] == ("scontrol", "show", "hostnames"):
            low, _, high = command[3].removeprefix("node").strip("[]").partition("-")
            return "".join(f"node{i}\n" for i in range(int(low), int(high or low) + 1))
        raise AssertionError(command)


def nodes(**states):
    """Returns eight nodes with jobs, and the states of some."""
    return {f"node{i}": "allocated" for i in range(1, 9)} | states


GOOD = "sizes=1-8 restart=60 since=1 left=3600 on=1"  # a valid comment


def job(id, state, count, occupied, comment=GOOD):
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
            snapshot = reconcile.snapshot(reconcile.squeue())
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


# Comments that are not valid, and a part of the reason.
INVALID = {
    GOOD.replace("left=3600", f"left={value}"): f"left: is {value!a}; must be a number from 0 to "
    for value in ("90m", "1h", "", "1e4", "NaN", "inf", "-1", "1_000", "0x10", "1.", ".5", "1.0000000001", "9000000001", "9" * 13, "\u0663")
} | {
    GOOD.replace("left=3600", "left=0.0"): "left: is 0.0; must be greater than 0",
    GOOD.replace("left=3600", "left"): "left: is ''; must be a number",
    GOOD.replace("left=3600", "left=" + "1" * 100): "'" + "1" * 40 + "...'",
    GOOD.replace("left=3600", "left=1,5"): "left: is '1,5'",
    GOOD.replace("restart=60", "restart=1m"): "restart: is '1m'; must be a number from 0 to 9000000000",
    GOOD.replace("since=1", "since=now"): "since: is 'now'; must be a whole number from 1 to 9000000000",
    GOOD.replace("since=1", "since=1.5"): "since: is '1.5'",
    GOOD.replace(" on=1", " on=0"): "on: is '0'; must be a whole number from 1 to 2147483647",
    GOOD.replace(" on=1", " on=2147483648"): "on: is '2147483648'",
    GOOD.replace(" on=1", ""): "on: is not set; must be set",
    GOOD.replace("sizes=1-8", "sizes=few"): "sizes: is 'few'",
    GOOD.replace("sizes=1-8", "sizes=1-99999999999"): "sizes: is '99999999999'; must be a whole number from 1 to 2147483647",
    GOOD.replace("sizes=1-8", "sizes=1-"): "sizes: is ''",
    GOOD.replace("sizes=1-8", "sizes=0-8"): "sizes: is '0'",
    GOOD.replace("sizes=1-8", "sizes=8-1"): "sizes: is 8-1; the smallest size must be at most the largest",
    GOOD + " trained=soon": "trained: is 'soon'",
    GOOD + " restarts=1,x": "restarts: is 'x'",
    GOOD + " restarts=1,2,3,4": "restarts: has 4 entries; must have at most 3",
    GOOD + " left=1": "left: is set twice; must be set once",
    GOOD + " hello": "'hello' is unknown; the fields must be sizes, ",
    GOOD + " gpus=8": "'gpus=8' is unknown",
    GOOD + "\n7|RUNNING|4|node[1-4]|" + GOOD: "'7|RUNNING|4|node[1-4]|sizes=1-8' is unknown",
    GOOD + " \udcff=1": r"'\udcff=1' is unknown",
    GOOD + "|": "on: is '1|'",
    GOOD + "\x1b[2J": r"on: is '1\x1b[2J'",
    "": "sizes: is not set",
}

# Slurm's commands and elastalloc, as one program. It keeps the jobs in the file jobs and appends each command that changes
# a job, and each request, to the file log. Events in the file events happen during a decision.
FAKE = """
import json, os, sys
name, args, folder = os.path.basename(sys.argv[0]), sys.argv[1:], os.path.dirname(sys.argv[0])
def path(name): return os.path.join(folder, name)
def load(name): return json.load(open(path(name)))
def save(name, value): json.dump(value, open(path(name), "w"))
def log(*entry): open(path("log"), "a").write(json.dumps(entry) + "\\n")
jobs = load("jobs")
if name == "sinfo":
    sys.stdout.write("".join(f"node{i}".ljust(256) + "idle".ljust(256) + "\\n" for i in range(1, 9)))
elif name == "squeue":
    for job in jobs:
        line = args[1].removeprefix("--format=")
        for field, value in zip(("%A", "%T", "%D", "%N", "%k"), job):
            line = line.replace(field, value)
        sys.stdout.buffer.write(os.fsencode(line + "\\n"))
elif name == "scontrol" and args[:2] == ["show", "hostnames"]:
    print(args[2])
elif name == "scontrol":
    log(*args)
elif name == "elastalloc":
    snapshot = json.load(sys.stdin)["snapshot"]
    log("decision", [job["id"] for job in snapshot["jobs"]])
    events = load("events")
    if events:
        save("jobs", events.pop(0))
        save("events", events)
    if os.path.exists(path("fails")):
        sys.exit("no server")
    print(json.dumps({"allocations": [{"jobId": job["id"], "nodes": 1} for job in snapshot["jobs"]]}))
"""


def text(draw):
    """Returns the comment of a job: random characters, or a valid comment in which some are replaced."""
    characters = "".join(map(chr, range(1, 256))) + "\udc80\udcff\u2028\u0663\U0001f600" + "=|-,. \n" * 20 + "0123456789" * 5
    if draw.random() < 0.3:
        return "".join(draw.choices(characters, k=draw.randrange(40)))
    comment = list(GOOD + draw.choice(["", " trained=7", " trained=7 restarts=1,2"]))
    for _ in range(draw.choice([0, 1, 1, 2, 5])):
        at = draw.randrange(len(comment))
        comment[at:at + draw.randrange(2)] = draw.choice(characters)
    return "".join(comment)


class Comments(unittest.TestCase):
    def test_invalid(self):
        for comment, reason in INVALID.items():
            with self.subTest(comment), self.assertRaises(ValueError) as raised:
                reconcile.describe("1", "PENDING", 0, comment)
            self.assertIn(reason, str(raised.exception))
            self.assertTrue(str(raised.exception).isascii() and str(raised.exception).isprintable(), raised.exception)

    def test_any(self):
        # What is accepted has the form of the API, whatever the comment contains.
        draw = random.Random(1)
        accepted = 0
        for _ in range(20000):
            comment = text(draw)
            try:
                job = reconcile.describe("1", "PENDING", 0, comment)[1]
                reconcile.started(comment)
            except ValueError as error:
                self.assertTrue(str(error).isascii() and str(error).isprintable(), error)
                continue
            accepted += 1
            for duration in job["remainingEta"], job["restartTime"], job["trainingTime"], job["waitingTime"], *job["recentRestarts"]:
                self.assertRegex(duration, r"\A[0-9]{1,10}(\.[0-9]{1,9})?s\Z", comment)
                self.assertLessEqual(float(duration[:-1]), 292 * 365 * 86400)
            self.assertGreater(float(job["remainingEta"][:-1]), 0, comment)
            self.assertTrue(1 <= job["minNodes"] <= job["maxNodes"] < 2**31 and 1 <= job["etaNodes"] < 2**31, comment)
        self.assertGreater(accepted, 1000)


class Main(unittest.TestCase):
    def reconcile(self, *queues, fails=False):
        """Runs the script. The first queue is the one at its start, and each of the others the queue after a decision. Returns
        the exit status, what it prints, and the log."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name in "sinfo", "squeue", "scontrol", "elastalloc":
                (folder / name).write_text(f"#!{sys.executable}{FAKE}")
                (folder / name).chmod(0o755)
            (folder / "jobs").write_text(json.dumps(queues[0]))
            (folder / "events").write_text(json.dumps(queues[1:]))
            if fails:
                (folder / "fails").touch()
            code = "import reconcile; reconcile.REVOKED_SECONDS = 0; reconcile.main()"
            done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True,
                                  env={**os.environ, "PATH": str(folder), "LC_ALL": "C"})
            log = folder / "log"
            return done.returncode, done.stdout + done.stderr, [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def test_invalid(self):
        # Every job with an invalid comment is excluded with its reason, and no other job is affected.
        invalid = [[str(10 + i), "PENDING", "1", "", comment] for i, comment in enumerate(INVALID)]
        status, printed, log = self.reconcile([["1", "PENDING", "1", "", GOOD], *invalid])
        self.assertEqual(status, 0, printed)
        self.assertEqual(log[:2], [["decision", ["1"]], ["hold", "1"]])
        self.assertEqual(log[-1], ["release", "1"])
        self.assertEqual(printed.splitlines()[0], "1: 0 -> 1")
        for (id, *_), reason in zip(invalid, INVALID.values()):
            self.assertIn(f"{id} is excluded: its comment is not valid: ", printed)
            self.assertIn(reason, printed)
        self.assertEqual(len(printed.splitlines()), 1 + len(invalid), printed)

    def test_any(self):
        draw = random.Random(2)
        jobs = [[str(10 + i), draw.choice(["PENDING", "RUNNING"]), "1", f"node{1 + i % 8}", text(draw)] for i in range(60)]
        status, printed, log = self.reconcile(jobs)
        self.assertEqual(status, 0, printed)
        excluded = re.findall(r"^(\d+) is excluded: its comment is not valid: ", printed, re.M)
        self.assertEqual(sorted(log[0][1] + excluded), sorted(id for id, *_ in jobs))
        self.assertGreater(len(log[0][1]), 5)

    def test_no_decision(self):
        # Without a decision, no job is changed.
        status, printed, log = self.reconcile([["1", "PENDING", "1", "", GOOD], ["2", "RUNNING", "1", "node1", GOOD]], fails=True)
        self.assertNotEqual(status, 0)
        self.assertEqual(log, [["decision", ["1", "2"]]])

    def test_queue_changes(self):
        # If a job starts or completes during the decision, the decision is repeated.
        waiting, running = ["1", "PENDING", "1", "", GOOD], ["1", "RUNNING", "1", "node1", GOOD]
        other, moved = ["2", "RUNNING", "1", "node2", GOOD], ["2", "RUNNING", "1", "node3", GOOD]
        new = ["3", "PENDING", "1", "", GOOD]
        for before, after, decisions in (
            ([waiting], [running], [["1"], ["1"]]),
            ([waiting, other], [waiting], [["1", "2"], ["1"]]),
            ([waiting, other], [waiting, moved], [["1", "2"], ["1", "2"]]),
            ([waiting, other], [waiting, other, ["3", "CONFIGURING", "1", "node3", GOOD]], [["1", "2"], ["1", "2"]]),
            ([waiting], [waiting, new], [["1"]]),
            ([waiting], [waiting[:4] + [GOOD + " trained=1"]], [["1"]]),
        ):
            with self.subTest(after):
                status, printed, log = self.reconcile(before, after)
                self.assertEqual(status, 0, printed)
                self.assertEqual([entry[1] for entry in log if entry[0] == "decision"], decisions)

    def test_queue_never_rests(self):
        waiting, running = [["1", "PENDING", "1", "", GOOD]], [["1", "RUNNING", "1", "node1", GOOD]]
        status, printed, log = self.reconcile(waiting, running, waiting, running)
        self.assertEqual(status, 1)
        self.assertIn("jobs started, stopped or completed during each of 3 decisions", printed)
        self.assertEqual([entry[0] for entry in log], ["decision", "hold", "decision", "decision", "hold"])

    def test_comment_changes(self):
        # A comment that becomes invalid after the decision does not keep others from their start.
        good = [["1", "PENDING", "1", "", GOOD], ["2", "PENDING", "1", "", GOOD]]
        status, printed, log = self.reconcile(good, [["1", "PENDING", "1", "", "left=\udcff"], good[1]])
        self.assertEqual(status, 0, printed)
        self.assertRegex(printed, "1 is not started: its comment is not valid: ")
        self.assertEqual(log[-1], ["release", "2"])
        self.assertNotIn(["release", "1"], log)


if __name__ == "__main__":
    unittest.main()
