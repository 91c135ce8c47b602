"""The models of the torch variant, and their training with gloo. Needs PyTorch."""

import datetime
import os
from typing import Any, Dict, Optional, Tuple

import torch
import torch.distributed as dist
from torch import nn

from testbed.worker import MICRO_BATCHES

# A rank that waits longer for another one fails. It must exceed the time of a step and of a start.
GLOO_TIMEOUT = datetime.timedelta(minutes=2)


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
    """Returns a model and the shape of its micro-batches. A step of 16 micro-batches takes 150 to 450 ms on a core of
    a current server, so that most of the time is not that of gloo."""
    if name == "mlp":
        return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)), (384, 256)
    if name == "cnn":
        layers = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 1)), (16, 3, 32, 32)
    if name == "transformer":
        return _Attention(), (8, 24, 96)
    raise ValueError(f"model is {name!r}; must be one of mlp, cnn, transformer")


def warm_up() -> None:
    """Does once what each start would repeat otherwise: the first optimizer imports much of PyTorch."""
    torch.set_num_threads(1)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()


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
        self._model, self._shape = build(spec["model"])
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=1e-3)
        if saved:
            state = torch.load(self._file())
            self._model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])

    def step(self, step: int, stop: bool) -> Tuple[float, bool]:
        """Computes a step, and returns its loss and whether a rank is to stop."""
        parameters = list(self._model.parameters())
        self._optimizer.zero_grad()
        loss = torch.zeros(())
        for index in range(self._spec["rank"], MICRO_BATCHES, self._spec["world"]):
            data = torch.randn(self._shape, generator=torch.Generator().manual_seed(MICRO_BATCHES * step + index))
            target = torch.tanh(data.flatten(1)[:, :8].sum(dim=1, keepdim=True))
            part = nn.functional.mse_loss(self._model(data), target) / MICRO_BATCHES
            part.backward()
            loss += part.detach()
        flat = torch.cat([p.grad.flatten() for p in parameters] + [torch.stack([loss, torch.tensor(float(stop))])])
        if self._spec["world"] > 1:
            dist.all_reduce(flat)
        at = 0
        for p in parameters:
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
