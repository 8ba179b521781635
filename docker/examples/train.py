"""A plain PyTorch program: DistributedDataParallel, a checkpoint from rank 0, SIGTERM. Nothing of this project is imported.

Started by torchrun, or by itself where RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set.
"""

import argparse
import os
import pathlib
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STOPPED_AFTER_A_CHECKPOINT = 75  # a restart that costs nothing
stopping = False


def stop(*_):
    global stopping
    stopping = True


def save(path, model, optimizer, step):
    """Whole or not at all: written under another name, then renamed."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")

    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    net = net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    step = 0
    folder = os.environ.get("DDP_CHECKPOINT_DIR")
    path = pathlib.Path(folder, "state.pt") if folder else None
    if path and dist.get_rank() == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            state = torch.load(path, map_location=device)
            net.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            step = state["step"]
    began = torch.tensor(step, device=device)
    dist.broadcast(began, 0)  # the others may not even see the volume
    step = int(began)
    model = DistributedDataParallel(net)  # sends rank 0's parameters to all

    generator = torch.Generator().manual_seed(dist.get_rank() + 1000 * step)
    loss = torch.zeros(())
    while step < options.steps:
        x = torch.randn(32, 8, generator=generator).to(device)
        loss = (model(x).squeeze(1) - x.sum(1).sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        stop_now = torch.tensor(float(stopping), device=device)
        dist.all_reduce(stop_now)  # all ranks stop at the same step
        if path and dist.get_rank() == 0 and (step % 50 == 0 or stop_now or step == options.steps):
            save(path, net, optimizer, step)
        if stop_now:
            dist.destroy_process_group()
            sys.exit(STOPPED_AFTER_A_CHECKPOINT)
    if dist.get_rank() == 0:
        print(f"step {step} on {dist.get_world_size()} ranks: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
