#!/usr/bin/env python3
"""Makes one decision for a Slurm partition of elastic jobs, and applies it.

Run this script every 10 minutes, without overlap, as a user who may modify all of these jobs, with elastalloc on the PATH.
Arguments such as --server allocator:50051 are passed to `elastalloc allocate`, which decides in process by default.
docs/schedulers/slurm.md describes the script.
"""

import json
import subprocess
import sys
import time

PARTITION = "elastic"
STOP_SECONDS = 300  # until stopped jobs have released their nodes, including KillWait and epilogs
# A node rejects a job that starts in the second in which the node stopped it, and such a job fails.
REVOKED_SECONDS = 2

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
    """Returns the standard output of a command."""
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **kwargs).stdout


def squeue(*args):
    """Returns the id, state, number of nodes, list of nodes and comment of each job."""
    lines = run("squeue", "--noheader", "--format=%A|%T|%D|%N|%k", *args).splitlines()
    return [line.split("|", 4) for line in lines]


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


def describe(id, state, nodes, comment):
    """Returns the submission time of a job, and the job of the snapshot, from its comment."""
    fields = dict(word.split("=", 1) for word in comment.split())
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


def snapshot():
    """Returns the current snapshot: the jobs that may be started, resized or paused, and the number of accepting nodes
    that no other job occupies."""
    nodes, excluded, jobs = sinfo(), set(), []
    for id, state, count, occupied, comment in squeue("--partition", PARTITION):
        occupied = hostnames(occupied)
        reasons = [f"{node} {reason}" for node in occupied
                   for kind, reason in [nodes.get(node, ("gone", "is not in the partition"))] if kind != "accepting"]
        if state == "RUNNING" and reasons:
            print(f"{id} keeps its nodes: {'; '.join(reasons)}", file=sys.stderr)
        elif state in ("RUNNING", "PENDING"):
            try:
                jobs.append(describe(id, state, int(count), comment))
                continue
            except (KeyError, ValueError) as error:
                print(f"{id} is excluded: {error!r} in its comment {comment!r}", file=sys.stderr)
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
    if ids:
        time.sleep(REVOKED_SECONDS)


def started(comment):
    """Returns the comment of a job that starts. The field restarts lists the values of trained at the last three restarts,
    newest first. Every start but the first one is a restart."""
    fields = {"restarts": None} | dict(word.split("=", 1) for word in comment.split())
    restarts = []
    if fields["restarts"] is not None:
        restarts = [fields.get("trained", "0"), *filter(None, fields["restarts"].split(","))]
    fields["restarts"] = ",".join(restarts[:3])
    return " ".join(f"{name}={value}" for name, value in fields.items())


def start(id, nodes, comment):
    """Releases a job that waits on `hold`. Without NumCPUs, Slurm would not start it on fewer nodes than it had before. Without
    StartTime, a requeued job would wait for two minutes."""
    run("scontrol", "update", f"JobId={id}", f"NumNodes={nodes}-{nodes}", f"NumTasks={nodes}", f"NumCPUs={nodes}", "StartTime=now",
        f"Comment={started(comment)}")
    run("scontrol", "release", id)


def hold():
    """Puts all waiting jobs on `hold`, so that Slurm starts none during the decision: jobs that the last run released and that
    have not started, and jobs that were requeued because a node failed."""
    if ids := [id for id, *_ in squeue("--partition", PARTITION, "--states=PENDING")]:
        # The command may fail for a job that has started or completed in the meantime.
        subprocess.run(["scontrol", "hold", ",".join(ids)])


def main():
    hold()
    request = {
        "snapshot": snapshot(),
        "options": {"badJobs": "BAD_JOBS_HOLD"},
    }
    decision = json.loads(run("elastalloc", "allocate", "-f", "-", "-o", "json", *sys.argv[1:], input=json.dumps(request)))
    current = {job["id"]: job["currentNodes"] for job in request["snapshot"]["jobs"]}
    target = {a["jobId"]: a.get("nodes", 0) for a in decision["allocations"]}
    changed = [id for id in target if target[id] != current[id]]
    requeue([id for id in changed if current[id]])
    comments = {id: comment for id, _, _, _, comment in squeue("--partition", PARTITION)}
    for id in changed:
        print(f"{id}: {current[id]} -> {target[id]}")
        if target[id] and id in comments:  # The job may have completed.
            start(id, target[id], comments[id])


if __name__ == "__main__":
    main()
