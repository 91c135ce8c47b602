#!/usr/bin/env python3
"""Convert the job history of a cluster to a trace for elastalloc-lab (docs/traces.md).

usage: traces.py slurm  < sacct.txt        sacct -o JobIDRaw,Submit,Start,ElapsedRaw,AllocTRES,User,Account
       traces.py helios < cluster_log.csv  SenseTime, 2020
       traces.py philly < cluster_job_log  Microsoft, 2017
       traces.py itp    < cluster04.csv    Microsoft, 2021
       traces.py pai pai_job_table.csv pai_task_table.csv  Alibaba, 2020

Jobs without GPUs, and those without a known duration, are left out.
"""

import csv
import json
import math
import re
import sys
from datetime import datetime, timezone


def when(text):
    """Seconds of a time that names no zone, as if there were no daylight saving."""
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


def slurm(lines):
    for job, submit, start, elapsed, tres, user, group in csv.reader(lines, delimiter="|"):
        gpus = re.search(r"gres/gpu=(\d+)", tres)
        if gpus and start not in ("Unknown", "None") and int(elapsed) > 0:
            # sacct prints local time.
            submit, start = (datetime.fromisoformat(t).timestamp() for t in (submit, start))
            yield submit, job, start, elapsed, gpus[1], user, group


def helios(lines):
    for r in csv.DictReader(lines):
        if float(r["gpu_num"]) > 0 and r["duration"]:
            yield when(r["submit_time"]), r["job_id"], r["duration"], int(float(r["gpu_num"])), r["user"], r["state"]


def philly(lines):
    """A job ran once per attempt: its duration is the sum over those with both times, its GPUs those of the last."""
    for r in json.load(lines):
        ran = [a for a in r["attempts"] if "None" not in (str(a["start_time"]), str(a["end_time"]))]
        gpus = sum(len(d["gpus"]) for d in ran[-1]["detail"]) if ran else 0
        if gpus > 0:
            duration = sum(when(a["end_time"]) - when(a["start_time"]) for a in ran)
            yield when(r["submitted_time"]), r["jobid"], duration, gpus, r["user"], r["status"]


def itp(lines):
    for r in csv.DictReader(lines):
        yield float(r["submission_time"]), r["job_id"], r["duration"], r["num_gpu"]


def pai(jobs, tasks):
    """GPUs are the sum over a job's tasks, most of them of less than one; only jobs of a whole one are kept."""
    ran = {}
    for job, _, n, _, start, end, _, _, gpu, _ in csv.reader(tasks):
        if n and gpu and start and end:
            first, last, gpus = ran.get(job, (math.inf, 0, 0))
            ran[job] = (min(first, float(start)), max(last, float(end)), gpus + float(n) * float(gpu) / 100)
    for job, _, user, status, submitted, _ in csv.reader(jobs):
        first, last, gpus = ran.get(job, (0, 0, 0))
        if submitted and gpus >= 1 and last >= first:
            yield float(submitted), job, last - first, math.ceil(gpus), user, status


COLUMNS = {
    slurm: "start_s,duration_s,gpus,user,group",
    helios: "duration_s,gpus,user,status",
    philly: "duration_s,gpus,user,status",
    itp: "duration_s,gpus",
    pai: "duration_s,gpus,user,status",
}


def main(source, *files):
    jobs = sorted(source(*files), key=lambda job: job[0])
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["job_id", "submit_s", *COLUMNS[source].split(",")])
    for submitted, job, *rest in jobs:
        if source is slurm:
            rest[0] = round(rest[0] - jobs[0][0])
        out.writerow([job, submitted - jobs[0][0], *rest])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pai", jobs, tasks]:
            with open(jobs) as jobs, open(tasks) as tasks:
                main(pai, jobs, tasks)
        case [name] if name in ("slurm", "helios", "philly", "itp"):
            main(globals()[name], sys.stdin)
        case _:
            sys.exit(__doc__)
