"""First in, first out: every job gets the nodes that it requested, which is its largest size with --max-growth 1."""

import json
import sys

for line in sys.stdin:
    snapshot = json.loads(line)["snapshot"]
    jobs = snapshot.get("jobs", [])  # In the order of submission.
    idle = snapshot["totalNodes"] - sum(job.get("currentNodes", 0) for job in jobs)
    allocations = []
    queued = False
    for job in jobs:
        nodes = job.get("currentNodes", 0)
        if nodes == 0 and not queued:
            size = max(size for size in job["allowedNodes"] if size <= snapshot["totalNodes"])
            if size <= idle:
                nodes = size
                idle -= size
            else:
                queued = True  # No later job overtakes this one.
        allocations.append({"jobId": job["id"], "nodes": nodes})
    print(json.dumps({"allocations": allocations}), flush=True)
