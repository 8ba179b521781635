"""The peer's training step: PyTorch DDP over Gloo, one thread a rank, ranks as processes of this host.

peer_steps.py mlp|resnet18|gpt RANKS prints rank 0's medians as {"peer.MODEL.step": seconds, ...}: "compute" is the step
without DDP, in the same processes; "start" from the start of a rank's process to the end of its first step; "rss" bytes.
"""

import json
import os
import resource
import statistics
import sys
import time

import peer
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

STEPS = {"mlp": 100, "resnet18": 20, "gpt": 20}


class Block(nn.Module):
    """Of ResNet-18: two convolutions and a way around them."""

    def __init__(self, in_channels, out_channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.downsample = None
        if in_channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        around = x if self.downsample is None else self.downsample(x)
        return functional.relu(self.bn2(self.conv2(y)) + around)


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    channels = 64
    for width in (64, 128, 256, 512):
        for number in range(2):
            layers.append(Block(channels, width, 2 if width > 64 and number == 0 else 1))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Layer(nn.Module):
    """Of GPT: attention to the tokens before, and two linear layers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.norm1(x)).split(width, 2)
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.contract(functional.gelu(self.expand(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary=96, width=384, layers=6, heads=6, context=128):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(context, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.size(1)))
        return self.head(self.norm(self.layers(x)))


def workload(name):
    if name == "mlp":
        model = nn.Sequential(
            nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        )
        return model, torch.randn(64, 784), torch.randint(0, 10, (64,))
    if name == "resnet18":
        return resnet18(), torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    return Gpt(), torch.randint(0, 96, (4, 128)), torch.randint(0, 96, (4 * 128,))


def seconds_here():
    """Since this process was started."""
    with open("/proc/self/stat", encoding="ascii") as stat:
        started = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def median_step(model, inputs, labels, steps, started=None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad()
        scores = model(inputs)
        functional.cross_entropy(scores.reshape(-1, scores.size(-1)), labels).backward()
        optimizer.step()

    step()
    if started is not None:
        started()
    for _ in range(4):
        step()
    dist.barrier()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def rank_main(rank, ranks, port, name):
    peer.join(rank, ranks, port)

    def tell(what, value):
        if rank == 0:
            print(json.dumps({f"peer.{name}.{what}": value}), flush=True)

    torch.manual_seed(0)
    model, inputs, labels = workload(name)
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    tell("step", median_step(wrapped, inputs, labels, STEPS[name], lambda: tell("start", seconds_here())))
    tell("rss", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    del wrapped
    model, inputs, labels = workload(name)
    tell("compute", median_step(model, inputs, labels, STEPS[name]))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    peer.spawn(rank_main, int(sys.argv[2]), sys.argv[1])
