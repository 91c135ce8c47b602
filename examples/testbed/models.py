"""The models of the torch variant, and their training with gloo. Needs PyTorch.

Workers train on GPUs if PyTorch finds some, otherwise on processor cores. Gradients are added by gloo on the processor in
both cases, so that several workers can share a GPU.

python3 -m testbed.models MODEL prints a number of examples per micro-batch, for calibrate.
"""

import contextlib
import datetime
import importlib
import os
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch import nn

from testbed.worker import MICRO_BATCHES

# A rank that waits longer for another one fails. It must exceed the time of a step and of a start.
GLOO_TIMEOUT = datetime.timedelta(minutes=2)
STEP_S = 0.3  # time of a step on one node that find_examples aims at, so that most of the time is not that of gloo


class _Attention(nn.Module):
    """A transformer of two layers whose output is the mean over the sequence."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).mean(dim=1))


def build(name: str) -> Tuple[nn.Module, Tuple[int, ...]]:
    """Returns a model and the shape of an example."""
    if name == "mlp":
        return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)), (256,)
    if name == "cnn":
        layers = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 1)), (3, 32, 32)
    if name == "transformer":
        return _Attention(), (24, 96)
    raise ValueError(f"model is {name!r}; must be one of mlp, cnn, transformer")


def device(slot: int) -> torch.device:
    """Returns the device of a slot: a GPU if there is one, which slots may share."""
    if torch.cuda.is_available():
        return torch.device("cuda", slot % torch.cuda.device_count())
    return torch.device("cpu")


def warm_up() -> None:
    """Does once what each start would repeat otherwise: the first optimizer imports much of PyTorch.

    A process that has used a GPU, or has computed gradients with a PyTorch for GPUs, cannot fork workers that use one.
    So with such a PyTorch, it only imports."""
    torch.set_num_threads(1)
    if torch.backends.cuda.is_built():
        with contextlib.suppress(ImportError):  # PyTorch 1 has none.
            importlib.import_module("torch._dynamo")  # It is what the first optimizer imports.
        return
    model = nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()


def gradients(model: nn.Module, on: torch.device, shape: Tuple[int, ...], step: int, indices: Any) -> Tuple[torch.Tensor, torch.Tensor]:
    """Returns the sum of the gradients of some micro-batches of a step as one tensor, and the sum of their losses."""
    model.zero_grad()
    loss = torch.zeros((), device=on)
    for index in indices:
        data = torch.randn(shape, generator=torch.Generator().manual_seed(MICRO_BATCHES * step + index))
        target = torch.tanh(data.flatten(1)[:, :8].sum(dim=1, keepdim=True))
        part = nn.functional.mse_loss(model(data.to(on)), target.to(on)) / MICRO_BATCHES
        part.backward()
        loss += part.detach()
    return torch.cat([p.grad.flatten() for p in model.parameters()]), loss


def find_examples(name: str) -> int:
    """Returns the number of examples per micro-batch with which a step takes about STEP_S on one node. On a processor
    core, the time of the processor counts, so that it does not depend on how busy the machine is."""
    torch.set_num_threads(1)
    on = device(0)
    model, shape = build(name)
    model.to(on)
    clock = time.process_time if on.type == "cpu" else time.monotonic

    def seconds(examples: int) -> float:
        times: List[float] = []
        for step in range(4):
            begun = clock()
            float(gradients(model, on, (examples, *shape), step, range(1))[1])  # It waits for the GPU.
            times.append(clock() - begun)
        return min(times) * MICRO_BATCHES

    few, many = 1, 2
    while seconds(many) < STEP_S and many < 1 << 14:
        few, many = many, 2 * many
    while many - few > max(1, few // 8):
        middle = (few + many) // 2
        few, many = (middle, many) if seconds(middle) < STEP_S else (few, middle)
    return few


class TorchModel:
    """Trains a model on all ranks of a job. Every rank loads the checkpoint, and rank 0 saves it."""

    def __init__(self, spec: Dict[str, Any], saved: Optional[Dict[str, Any]]) -> None:
        torch.set_num_threads(1)
        self._spec = spec
        self._weights = saved["weights"] if saved else 1  # number of the file of the last checkpoint
        if spec["world"] > 1:
            dist.init_process_group(
                "gloo", init_method="file://" + spec["rendezvous"], rank=spec["rank"], world_size=spec["world"],
                timeout=GLOO_TIMEOUT,
            )
        torch.manual_seed(1)
        self._model, shape = build(spec["model"])
        self._device, self._shape = device(spec["slot"]), (spec["examples"], *shape)
        self._model.to(self._device)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=1e-3)
        if saved:
            state = torch.load(self._file(), map_location="cpu")
            self._model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])

    def step(self, step: int, stop: bool) -> Tuple[float, bool]:
        """Computes a step, and returns its loss and whether a rank is to stop."""
        indices = range(self._spec["rank"], MICRO_BATCHES, self._spec["world"])
        flat, loss = gradients(self._model, self._device, self._shape, step, indices)
        flat = torch.cat([flat.cpu(), torch.tensor([float(loss), float(stop)])])
        if self._spec["world"] > 1:
            dist.all_reduce(flat)
        at = 0
        for p in self._model.parameters():
            p.grad.copy_(flat[at : at + p.numel()].view_as(p))
            at += p.numel()
        self._optimizer.step()
        return float(flat[-2]), bool(flat[-1] > 0)

    def _file(self) -> str:
        return f"{self._spec['checkpoint']}.{self._weights}.pt"

    def state(self) -> Dict[str, Any]:
        """Saves model and optimizer, and returns what the checkpoint contains in addition. Two files alternate, so
        that the last checkpoint is complete if the process is killed."""
        self._weights = 1 - self._weights
        with open(self._file(), "wb") as file:
            torch.save({"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        return {"weights": self._weights}


if __name__ == "__main__":
    print(find_examples(sys.argv[1]))
