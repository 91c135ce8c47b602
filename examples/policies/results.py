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

    width, height, longest = 600, 300, 60 * max(max(hours) for hours in times.values())

    def x(minutes):
        return width * math.log(max(minutes, 1)) / math.log(max(longest, 2))

    with open(sys.argv[2], "w") as svg:
        print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-40 -10 {width + 60} {height + 50}" font-size="10">', file=svg)
        for percent in (0, 25, 50, 75, 100):
            y = height * (1 - percent / 100)
            print(f'<path stroke="#ccc" d="M0 {y}H{width}"/><text x="-30" y="{y + 3}">{percent}%</text>', file=svg)
        for minutes, label in ((1, "1 min"), (10, "10 min"), (60, "1 h"), (600, "10 h"), (6000, "100 h")):
            if minutes <= longest:
                print(f'<path stroke="#ccc" d="M{x(minutes):.1f} 0V{height}"/>', file=svg)
                print(f'<text x="{x(minutes) - 10:.1f}" y="{height + 15}">{label}</text>', file=svg)
        print(f'<text x="{width / 2 - 100}" y="{height + 32}">jobs complete within the time after submission</text>', file=svg)
        for n, ((policy, nodes), hours) in enumerate(times.items()):
            color = f"hsl({360 * n // len(times)} 70% 40%)"
            points = [f"{x(60 * hour):.1f},{height * (1 - (i + 1) / len(hours)):.1f}" for i, hour in enumerate(sorted(hours))]
            print(f'<polyline fill="none" stroke="{color}" points="{" ".join(points)}"/>', file=svg)
            print(f'<text x="5" y="{12 + 12 * n}" fill="{color}">{policy}, {nodes} nodes</text>', file=svg)
        print("</svg>", file=svg)
