"""A training that torchrun can resize: docs/schedulers/torchrun.md. It fits 8 numbers; a step takes half a second."""

import os
import time

import torch
import torch.distributed as dist

CHECKPOINT = "checkpoint.pt"

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)  # The same examples on every node, of which each takes its share.
examples = torch.randn(960, 8)
wanted = examples @ torch.randn(8)
share = slice(rank, None, world)
weights = torch.zeros(8, requires_grad=True)
step = 0
if os.path.exists(CHECKPOINT):
    saved = torch.load(CHECKPOINT)
    step, weights = saved["step"], saved["weights"].requires_grad_()
    if rank == 0:
        print(f"stood still for {time.time() - saved['time']:.0f} s", flush=True)
if rank == 0:
    print(f"on {world} nodes from step {step}", flush=True)
while True:
    loss = (examples[share] @ weights - wanted[share]).square().sum() / len(examples)
    (gradient,) = torch.autograd.grad(loss, weights)
    dist.all_reduce(gradient)  # It fails when another worker is gone.
    dist.all_reduce(loss)
    with torch.no_grad():
        weights -= 0.01 * gradient
    time.sleep(0.5)
    step += 1
    if rank == 0:  # After every step, as it takes no time here.
        torch.save({"step": step, "weights": weights, "time": time.time()}, CHECKPOINT + ".new")
        os.replace(CHECKPOINT + ".new", CHECKPOINT)
        print(f"step {step} loss {loss.item():.6f}", flush=True)
