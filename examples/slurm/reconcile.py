#!/usr/bin/env python3
"""Makes one decision for a Slurm partition of elastic jobs, and applies it.

Run this script every 10 minutes, without overlap, as a user who may modify all of these jobs, with elastalloc on the PATH.
Arguments such as --server allocator:50051 are passed to `elastalloc allocate`, which decides in process by default.
docs/schedulers/slurm.md describes the script.
"""

import json
import re
import secrets
import subprocess
import sys
import time

PARTITION = "elastic"
STOP_SECONDS = 300  # until stopped jobs have released their nodes, including KillWait and epilogs
# A node rejects a job that starts in the second in which the node stopped it, and such a job fails.
REVOKED_SECONDS = 2
ATTEMPTS = 3  # decisions per run, if jobs start or stop while they are made

MAX_INT32 = 2**31 - 1
MAX_SECONDS = 9_000_000_000  # The API accepts durations of at most 292 years.
REQUIRED = ("sizes", "restart", "since", "left", "on")
OPTIONAL = ("trained", "restarts")

# Flags of nodes on which Slurm starts jobs.
HARMLESS = {"cloud", "dynamic_norm", "planned", "powered_down", "powering_up"}
# Flags of nodes on which Slurm starts no jobs, and what each one means.
FLAGS = {
    "completing": "is being left by a job",
    "drain": "is draining",
    "fail": "is expected to fail",
    "maintenance": "is reserved for maintenance",
    "not_responding": "does not respond",
    "reserved": "is reserved",
}


def run(*command, **kwargs):
    """Returns the standard output of a command, of which some bytes may not be UTF-8."""
    return subprocess.run(command, check=True, encoding="utf-8", errors="surrogateescape", stdout=subprocess.PIPE, **kwargs).stdout


def squeue(*args):
    """Returns the id, state, number of nodes, list of nodes and comment of each job. A comment may contain any character, also
    line breaks, so that random text that no user can guess surrounds it."""
    mark = secrets.token_hex(16)
    parts = run("squeue", "--noheader", f"--format=%A|%T|%D|%N|{mark}%k{mark}", *args).split(mark)
    return [[*head.strip().split("|")[:4], comment] for head, comment in zip(parts[::2], parts[1::2])]


def classify(state):
    """Classifies a node by its complete state in Slurm, such as allocated+drain, and returns the class and the reason.

    accepting: the node runs jobs and accepts new ones.
    retaining: the jobs on the node continue, but it accepts no new ones. Nodes with unknown flags are retaining.
    gone: no job runs on the node.
    """
    base, *flags = state.lower().split("+")
    if base in ("down", "error", "future"):
        return "gone", f"is {base}"
    if reasons := [FLAGS.get(flag, f"has the flag {flag}") for flag in flags if flag not in HARMLESS]:
        return "retaining", ", ".join(reasons)
    if base in ("idle", "allocated", "mixed"):
        return "accepting", f"is {base}"
    return "retaining", f"is {base}"


def sinfo():
    """Returns the class of every node of the partition, and the reason."""
    lines = run("sinfo", "--noheader", "--Node", "--partition", PARTITION, "--Format=NodeList:256,StateComplete:256").splitlines()
    return {name: classify(state) for name, state in map(str.split, lines)}


def hostnames(nodes):
    """Expands a list of nodes such as node[1-4]."""
    return run("scontrol", "show", "hostnames", nodes).split() if nodes else []


def number(name, text, low, high, fraction=False):
    """Returns a number from low to high in the notation of the API, or raises a ValueError."""
    valid = f"must be a {'number' if fraction else 'whole number'} from {low} to {high}, in digits"
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?" if fraction else "[0-9]{1,12}", text) or not low <= float(text) <= high:
        raise ValueError(f"{name}: is {shorten(text)}; {valid}")
    return text


def shorten(text):
    """Returns text of any content for a message of one line."""
    return ascii(text if len(text) <= 40 else text[:40] + "...")


def parse(comment):
    """Returns the fields of a comment by name, or raises a ValueError that names the field, the value and what is valid."""
    fields = {}
    for word in comment.split():
        name, _, value = word.partition("=")
        if name not in REQUIRED + OPTIONAL:
            raise ValueError(f"{shorten(word)} is unknown; the fields must be {', '.join(REQUIRED + OPTIONAL)}")
        if name in fields:
            raise ValueError(f"{name}: is set twice; must be set once")
        fields[name] = value
    for name in REQUIRED:
        if name not in fields:
            raise ValueError(f"{name}: is not set; must be set")
    low, separator, high = fields["sizes"].partition("-")
    number("sizes", low, 1, MAX_INT32)
    if separator:
        number("sizes", high, 1, MAX_INT32)
        if int(high) < int(low):
            raise ValueError(f"sizes: is {fields['sizes']}; the smallest size must be at most the largest")
    number("on", fields["on"], 1, MAX_INT32)
    number("since", fields["since"], 1, MAX_SECONDS)
    number("restart", fields["restart"], 0, MAX_SECONDS, fraction=True)
    number("left", fields["left"], 0, MAX_SECONDS, fraction=True)
    if float(fields["left"]) == 0:
        raise ValueError(f"left: is {fields['left']}; must be greater than 0")
    if "trained" in fields:
        number("trained", fields["trained"], 0, MAX_SECONDS)
    restarts = list(filter(None, fields.get("restarts", "").split(",")))
    if len(restarts) > 3:
        raise ValueError(f"restarts: has {len(restarts)} entries; must have at most 3")
    for at in restarts:
        number("restarts", at, 0, MAX_SECONDS)
    return fields


def describe(id, state, nodes, comment):
    """Returns the submission time of a job, and the job of the snapshot, from its comment, or raises a ValueError."""
    fields = parse(comment)
    since, trained = int(fields["since"]), int(fields.get("trained", 0))
    restarts = sorted(max(0, trained - int(at)) for at in fields.get("restarts", "").split(",") if at)
    low, _, high = fields["sizes"].partition("-")
    return since, {
        "id": id,
        "currentNodes": nodes if state == "RUNNING" else 0,
        "minNodes": int(low), "maxNodes": int(high or low),
        "remainingEta": fields["left"] + "s", "etaNodes": int(fields["on"]),
        "restartTime": fields["restart"] + "s",
        "recentRestarts": [f"{seconds}s" for seconds in restarts],
        "trainingTime": f"{trained}s",
        "waitingTime": f"{max(0, int(time.time()) - since - trained)}s",
    }


def snapshot(queue):
    """Returns the snapshot of the jobs in queue: the jobs that may be started, resized or paused, and the number of accepting
    nodes that no other job occupies."""
    nodes, excluded, jobs = sinfo(), set(), []
    for id, state, count, occupied, comment in queue:
        occupied = hostnames(occupied)
        reasons = [f"{node} {reason}" for node in occupied
                   for kind, reason in [nodes.get(node, ("gone", "is not in the partition"))] if kind != "accepting"]
        if state == "RUNNING" and reasons:
            print(f"{id} keeps its nodes: {'; '.join(reasons)}", file=sys.stderr)
        elif state in ("RUNNING", "PENDING"):
            try:
                jobs.append(describe(id, state, int(count), comment))
                continue
            except ValueError as error:
                print(f"{id} is excluded: its comment is not valid: {error}", file=sys.stderr)
        excluded.update(occupied)
    total = sum(kind == "accepting" and node not in excluded for node, (kind, _) in nodes.items())
    jobs.sort(key=lambda job: (job[0], int(job[1]["id"])))  # Jobs of the same second are sorted by id.
    return {"id": time.strftime("%FT%T"), "totalNodes": total, "jobs": [job for _, job in jobs]}


def requeue(ids):
    """Requeues jobs, which save their checkpoints, and returns when their nodes are free."""
    deadline = time.monotonic() + STOP_SECONDS
    while remaining := {id: state for id, state, *_ in squeue("--partition", PARTITION) if id in ids and state != "PENDING"}:
        if time.monotonic() > deadline:
            sys.exit(f"after {STOP_SECONDS} s, these jobs still occupy their nodes, so that no job is started: {', '.join(remaining)}")
        if running := [id for id in remaining if remaining[id] == "RUNNING"]:
            # The command fails for a job that is starting or completing. The loop repeats it.
            subprocess.run(["scontrol", "requeuehold", ",".join(running)])
        time.sleep(1)


def started(comment):
    """Returns the comment of a job that starts, or raises a ValueError. The field restarts lists the values of trained at the
    last three restarts, newest first. Every start but the first one is a restart."""
    fields = {"restarts": None} | parse(comment)
    restarts = []
    if fields["restarts"] is not None:
        restarts = [fields.get("trained", "0"), *filter(None, fields["restarts"].split(","))]
    fields["restarts"] = ",".join(restarts[:3])
    return " ".join(f"{name}={value}" for name, value in fields.items())


def start(id, nodes, comment):
    """Releases a job that waits on `hold`, or raises a ValueError if its comment is not valid. Without NumCPUs, Slurm would not start it on fewer nodes than it had before. Without
    StartTime, a requeued job would wait for two minutes."""
    run("scontrol", "update", f"JobId={id}", f"NumNodes={nodes}-{nodes}", f"NumTasks={nodes}", f"NumCPUs={nodes}", "StartTime=now",
        f"Comment={started(comment)}")
    run("scontrol", "release", id)


def hold(ids):
    """Puts waiting jobs on `hold`, so that Slurm does not start them: jobs that the last run released and that have not
    started, and jobs that were requeued because a node failed."""
    if ids:
        # The command may fail for a job that has started or completed in the meantime.
        subprocess.run(["scontrol", "hold", ",".join(ids)])


def states(queue):
    """Returns what a decision assumes about each job: its state and its nodes."""
    return {id: (state, occupied) for id, state, _, occupied, _ in queue}


def decide():
    """Makes a decision, puts the waiting jobs that it covers on `hold`, and returns the nodes of each job before and after.
    Decides again if a job has started, stopped or completed since the snapshot."""
    for _ in range(ATTEMPTS):
        queue = squeue("--partition", PARTITION)
        request = {
            "snapshot": snapshot(queue),
            "options": {"badJobs": "BAD_JOBS_HOLD"},
        }
        decision = json.loads(run("elastalloc", "allocate", "-f", "-", "-o", "json", *sys.argv[1:], input=json.dumps(request)))
        current = {job["id"]: job["currentNodes"] for job in request["snapshot"]["jobs"]}
        target = {a["jobId"]: a.get("nodes", 0) for a in decision["allocations"]}
        before = states(queue)
        hold([id for id in target if before[id][0] == "PENDING"])
        after = states(squeue("--partition", PARTITION))
        # A job that was submitted in the meantime waits on `hold` for the next run.
        if before == {id: job for id, job in after.items() if id in before or job[0] != "PENDING"}:
            return current, target
    sys.exit(f"jobs started, stopped or completed during each of {ATTEMPTS} decisions, so that no job is changed; run this script again")


def main():
    current, target = decide()
    changed = [id for id in target if target[id] != current[id]]
    requeue([id for id in changed if current[id]])
    if any(target[id] for id in changed):
        time.sleep(REVOKED_SECONDS)  # Slurm itself may have requeued a job just before, because a node failed.
    comments = {id: comment for id, _, _, _, comment in squeue("--partition", PARTITION)}
    for id in changed:
        if target[id] and id in comments:  # The job may have completed.
            try:
                start(id, target[id], comments[id])
            except ValueError as error:
                print(f"{id} is not started: its comment is not valid: {error}", file=sys.stderr)
                continue
        print(f"{id}: {current[id]} -> {target[id]}", flush=True)


if __name__ == "__main__":
    main()
