"""A training that torchrun can resize, for docs/schedulers/torchrun.md. It fits 8 parameters. A step takes half a second."""

import os
import time

import torch
import torch.distributed as dist

CHECKPOINT = "checkpoint.pt"

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)  # All nodes generate the same examples, and each node uses a part of them.
examples = torch.randn(960, 8)
targets = examples @ torch.randn(8)
share = slice(rank, None, world)
weights = torch.zeros(8, requires_grad=True)
step = 0
if os.path.exists(CHECKPOINT):
    saved = torch.load(CHECKPOINT)
    step, weights = saved["step"], saved["weights"].requires_grad_()
    if rank == 0:
        print(f"stopped for {time.time() - saved['time']:.0f} s", flush=True)
if rank == 0:
    print(f"on {world} nodes from step {step}", flush=True)
while True:
    loss = (examples[share] @ weights - targets[share]).square().sum() / len(examples)
    (gradient,) = torch.autograd.grad(loss, weights)
    dist.all_reduce(gradient)  # It fails if another worker has exited.
    dist.all_reduce(loss)
    with torch.no_grad():
        weights -= 0.01 * gradient
    time.sleep(0.5)
    step += 1
    if rank == 0:  # After every step, because the checkpoint is small.
        torch.save({"step": step, "weights": weights, "time": time.time()}, CHECKPOINT + ".new")
        os.replace(CHECKPOINT + ".new", CHECKPOINT)
        print(f"step {step} loss {loss.item():.6f}", flush=True)
