#!/usr/bin/env python3
"""Decides once about a Slurm partition of elastic jobs, and carries the decision out.

Run it every 10 minutes, one at a time, as a user who may change all these jobs, where
elastalloc is on the PATH. docs/schedulers/slurm.md explains it. Arguments are passed on to
`elastalloc allocate`, such as --server allocator:50051; without one it decides by itself.
"""

import json
import subprocess
import sys
import time

PARTITION = "elastic"
STOP_SECONDS = 300  # for jobs to save and leave: KillWait, epilogs

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


def run(*command, **more):
    """Returns what a command prints."""
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def squeue(*args):
    """Returns id, state, number of nodes, list of nodes and comment of jobs."""
    lines = run("squeue", "--noheader", "--format=%A|%T|%D|%N|%k", *args).splitlines()
    return [line.split("|", 4) for line in lines]


def classify(state):
    """Classifies a node by its complete state in Slurm, such as allocated+drain, and returns the class and the reason.

    accepting: the node runs jobs and takes new ones.
    retaining: the jobs on the node go on, but it takes no new ones. A flag that is not known here counts as such.
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
    """Returns the names in a list of nodes such as node[1-4]."""
    return run("scontrol", "show", "hostnames", nodes).split() if nodes else []


def describe(id, state, nodes, comment):
    """Returns when a job was submitted, and the job, of what it says in its comment."""
    said = dict(word.split("=", 1) for word in comment.split())
    since, trained = int(said["since"]), int(said.get("trained", 0))
    low, _, high = said["sizes"].partition("-")
    return since, {
        "id": id,
        "currentNodes": nodes if state == "RUNNING" else 0,
        "minNodes": int(low), "maxNodes": int(high or low),
        "remainingEta": said["left"] + "s", "etaNodes": int(said["on"]),
        "restartTime": said["restart"] + "s",
        "trainingTime": f"{trained}s",
        "waitingTime": f"{max(0, int(time.time()) - since - trained)}s",
    }


def snapshot():
    """Returns the present snapshot: the jobs that may be started, resized or paused, and the accepting
    nodes that no other job occupies."""
    nodes, taken, jobs = sinfo(), set(), []
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
                print(f"{id} is left out: {error!r} in its comment {comment!r}", file=sys.stderr)
        taken.update(occupied)
    total = sum(kind == "accepting" and node not in taken for node, (kind, _) in nodes.items())
    jobs.sort(key=lambda job: (job[0], int(job[1]["id"])))  # Those of one second in order of their ids.
    return {"id": time.strftime("%FT%T"), "totalNodes": total, "jobs": [job for _, job in jobs]}


def requeue(ids):
    """Stops jobs, which save their checkpoints, and returns when their nodes are free."""
    end = time.monotonic() + STOP_SECONDS
    while left := {id: state for id, state, *_ in squeue("--partition", PARTITION) if id in ids and state != "PENDING"}:
        if time.monotonic() > end:
            sys.exit(f"after {STOP_SECONDS} s these jobs still have their nodes, and none is started: {', '.join(left)}")
        if running := [id for id in left if left[id] == "RUNNING"]:
            # Slurm refuses a job that starts or ends at this very moment: it is asked again.
            subprocess.run(["scontrol", "requeuehold", ",".join(running)])
        time.sleep(1)


def start(id, nodes):
    """Starts a job that is held. Without NumCPUs, Slurm starts none on fewer nodes than it had last;
    without StartTime, it lets a requeued one wait for two minutes."""
    run("scontrol", "update", f"JobId={id}", f"NumNodes={nodes}-{nodes}", f"NumTasks={nodes}", f"NumCPUs={nodes}", "StartTime=now")
    run("scontrol", "release", id)


def hold():
    """Holds the jobs that wait, so that Slurm starts none while we decide: one released by the
    last run and not started yet, or requeued since a node failed."""
    if ids := [id for id, *_ in squeue("--partition", PARTITION, "--states=PENDING")]:
        # One that has started or ended meanwhile is no failure.
        subprocess.run(["scontrol", "hold", ",".join(ids)])


def main():
    hold()
    request = {
        "snapshot": snapshot(),
        "options": {"objective": "OBJECTIVE_TOTAL_TIME", "admission": "ADMISSION_START_FIRST", "badJobs": "BAD_JOBS_HOLD"},
    }
    answer = json.loads(run("elastalloc", "allocate", "-f", "-", "-o", "json", *sys.argv[1:], input=json.dumps(request)))
    has = {job["id"]: job["currentNodes"] for job in request["snapshot"]["jobs"]}
    gets = {a["jobId"]: a.get("nodes", 0) for a in answer["allocations"]}
    changed = [id for id in gets if gets[id] != has[id]]
    requeue([id for id in changed if has[id]])
    here = [id for id, *_ in squeue("--partition", PARTITION)]
    for id in changed:
        print(f"{id}: {has[id]} -> {gets[id]}")
        if gets[id] and id in here:  # It may have ended.
            start(id, gets[id])


if __name__ == "__main__":
    main()
