#!/usr/bin/env python3
"""Decides once about a Slurm partition of elastic jobs, and carries the decision out.

Run it every 10 minutes, one at a time, as a user who may change all these jobs, where
elastalloc is on the PATH. docs/slurm.md explains it. Arguments are passed on to
`elastalloc allocate`, such as --server allocator:50051; without one it decides by itself.
"""

import json
import subprocess
import sys
import time

PARTITION = "elastic"
STOP_SECONDS = 300  # for jobs to save and leave: KillWait, epilogs


def run(*command, **more):
    """Returns what a command prints."""
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


def squeue(*args):
    """Returns id, state, nodes and comment of jobs."""
    lines = run("squeue", "--noheader", "--format=%A|%T|%D|%k", *args).splitlines()
    return [line.split("|", 3) for line in lines]


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
    """Returns the present snapshot."""
    sizes = run("sinfo", "--noheader", "--partition", PARTITION, "--states=idle,alloc", "--format=%D")
    total, jobs = sum(map(int, sizes.split())), []
    for id, state, nodes, comment in squeue("--partition", PARTITION):
        if state not in ("RUNNING", "PENDING"):
            continue  # It comes or goes; its nodes are neither idle nor allocated.
        try:
            jobs.append(describe(id, state, int(nodes), comment))
        except (KeyError, ValueError) as error:
            print(f"{id} is left out: {error!r} in its comment {comment!r}", file=sys.stderr)
            total -= int(nodes) if state == "RUNNING" else 0
    jobs.sort(key=lambda job: job[0])
    return {"id": time.strftime("%FT%T"), "totalNodes": total, "jobs": [job for _, job in jobs]}


def requeue(ids):
    """Stops jobs, which save their checkpoints, and returns when their nodes are free."""
    end = time.monotonic() + STOP_SECONDS
    while left := {id: state for id, state, _, _ in squeue("--partition", PARTITION) if id in ids and state != "PENDING"}:
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
    if ids := [id for id, _, _, _ in squeue("--partition", PARTITION, "--states=PENDING")]:
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
    here = [id for id, _, _, _ in squeue("--partition", PARTITION)]
    for id in changed:
        print(f"{id}: {has[id]} -> {gets[id]}")
        if gets[id] and id in here:  # It may have ended.
            start(id, gets[id])


if __name__ == "__main__":
    main()
