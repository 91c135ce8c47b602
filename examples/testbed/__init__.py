"""Runs elastic training jobs on this machine under an elastalloc server, and compares with the simulator.

docs/evaluation/testbed.md describes it. The variants differ only in what a worker computes:

- plain: workers sleep, and checkpoints are JSON. It needs no PyTorch.
- torch: workers train models with PyTorch and gloo, each on a processor core of its own.
"""
