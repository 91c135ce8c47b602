"""Compare the policies of a simulation: python3 results.py FOLDER [CDF.svg]. It needs no packages."""

import csv
import json
import sys

folder = sys.argv[1]
with open(f"{folder}/summary.json") as file:
    summary = json.load(file)
times = {}  # Job completion times in hours, by policy and pool.
with open(f"{folder}/jobs.csv") as file:
    for job in csv.DictReader(file):
        times.setdefault((job["policy"], int(job["nodes"])), []).append(float(job["total_s"]) / 3600)

width = max(len(policy) for policy, _ in times)
print(f"{'policy':{width}} {'nodes':>6} {'mean h':>8} {'median h':>9} {'late %':>7}")
for run in summary["runs"]:
    hours = sorted(times[run["policy"], run["nodes"]])
    mean, median = sum(hours) / len(hours), hours[len(hours) // 2]
    print(f"{run['policy']:{width}} {run['nodes']:6} {mean:8.2f} {median:9.2f} {100 * run['later_than_ideal_share']:7.1f}")

if len(sys.argv) > 2:  # The share of the jobs that are complete within a time, from 1 min on a logarithmic axis.
    import math

    width, height, longest = 600, 300, max(max(hours) for hours in times.values())
    with open(sys.argv[2], "w") as svg:
        print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="10">', file=svg)
        for n, ((policy, nodes), hours) in enumerate(times.items()):
            color = f"hsl({360 * n // len(times)} 70% 40%)"
            points = []
            for i, hour in enumerate(sorted(hours)):
                x = width * math.log(max(60 * hour, 1)) / math.log(max(60 * longest, 2))
                points.append(f"{x:.1f},{height * (1 - (i + 1) / len(hours)):.1f}")
            print(f'<polyline fill="none" stroke="{color}" points="{" ".join(points)}"/>', file=svg)
            print(f'<text x="5" y="{12 + 12 * n}" fill="{color}">{policy}, {nodes} nodes</text>', file=svg)
        print("</svg>", file=svg)
