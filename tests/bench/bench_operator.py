#!/usr/bin/env python3
"""How quick, frugal and small ddp-operator is, beside the Job controller of Kubernetes.

  bench_operator.py --operator build/release/bin/ddp-operator [--only GROUP,...] [--output build/bench/operator.json]

Both face the same API server (tests/testbed), on the same machine, in the same run, in turns; figures are medians. The
peer is kube-controller-manager's Job controller as shipped (20 requests a second) and with its limits raised (500).
Writes rows {name, ours, peer, unit, ratio, target, met}; rows of groups that did not run are kept from the last run.
Pods are never scheduled: this client plays the kubelet by patching their status.
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from bench_operator_world import JOBS, PODS, ROOT, Watch, World, wait_until


class Table:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.rows = {row["name"]: row for row in json.loads(self.path.read_text())} if self.path.exists() else {}

    def add(self, name, unit, ours, peer=None, at_most=None, at_most_of_peer=None, at_least_faster=None):
        """Targets: an absolute one, or one relative to the peer (peer / ours for `at_least_faster`)."""
        ratio = ours / peer if peer else None
        targets, met = [], True
        if at_most is not None:
            targets.append(f"<= {at_most} {unit}")
            met = met and ours <= at_most
        if at_most_of_peer is not None:
            targets.append(f"<= {at_most_of_peer} x peer")
            met = met and ratio <= at_most_of_peer
        if at_least_faster is not None:
            targets.append(f">= {at_least_faster} x faster")
            met = met and peer / ours >= at_least_faster
        row = {"name": name, "ours": round(ours, 4), "peer": None if peer is None else round(peer, 4), "unit": unit,
               "ratio": None if ratio is None else round(ratio, 4), "target": ", ".join(targets), "met": met}
        self.rows[name] = row
        print("  {:66} ours {:>9.4g}  peer {:>9}  {:8} {:20} {}".format(
            name, ours, "-" if peer is None else f"{peer:.4g}", unit, row["target"], "ok" if met else "NOT MET"), flush=True)

    def save(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(list(self.rows.values()), indent=1) + "\n")


def in_turns(world, kinds, rounds, measure):
    """measure(controller) → value, for each kind in each round; the values by kind."""
    values = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            controller = world.start(kind)
            try:
                values[kind] += measure(kind, controller)
            finally:
                controller.stop()
    return values


def column(samples, index):
    return statistics.median(sample[index] for sample in samples)


def group_small(world, table):
    def measure(kind, controller):
        samples = []
        for _ in range(5):
            world.settle(controller, 2)  # the peer's bucket of 30 requests is full again
            with world.namespace() as place:
                created = place.create_job(kind, "train", 8)
                place.wait_for_pods(8, 30)
                seen = sorted(place.pods.first_seen.values())
                samples.append(((seen[0] - created) * 1000, (seen[7] - created) * 1000))
        return samples[1:]  # the first opens the connections

    values = in_turns(world, ("ours", "shipped"), 3, measure)
    table.add("8 pods: create returns -> 1st pod", "ms", column(values["ours"], 0), column(values["shipped"], 0), at_most_of_peer=1.0)
    table.add("8 pods: create returns -> 8th pod", "ms", column(values["ours"], 1), column(values["shipped"], 1), at_most_of_peer=1.2)


def group_large(world, table):
    def measure(kind, _):
        with world.namespace() as place:
            created = place.create_job(kind, "train", 256)
            place.wait_for_pods(256, 60)
            return [max(place.pods.first_seen.values()) - created]

    values = in_turns(world, ("ours", "raised"), 3, measure)
    values |= in_turns(world, ("shipped",), 2, measure)
    middle = {kind: statistics.median(list_) for kind, list_ in values.items()}
    table.add("256 pods, peer as shipped", "s", middle["ours"], middle["shipped"], at_least_faster=12)
    table.add("256 pods, peer with raised limits", "s", middle["ours"], middle["raised"], at_least_faster=1)


def group_many(world, table):
    def measure(kind, controller):
        world.settle(controller, 2)
        idle, cpu = controller.resident_mib(), controller.cpu_seconds()
        with world.namespace() as place:
            started = time.monotonic()
            list(world.pool.map(lambda i: place.create_job(kind, f"train-{i}", 8), range(100)))
            place.wait_for_pods(800, 120)
            took = max(place.pods.first_seen.values()) - started
            world.settle(controller, 3, 40)
            return [(took, controller.cpu_seconds() - cpu, idle, controller.resident_mib(), controller.resident_mib(peak=True))]

    values = in_turns(world, ("ours", "raised"), 3, measure)
    values |= in_turns(world, ("shipped",), 1, measure)
    ours, raised, shipped = values["ours"], values["raised"], values["shipped"]
    table.add("100 jobs x 8 pods, peer as shipped", "s", column(ours, 0), column(shipped, 0), at_least_faster=15)
    table.add("100 jobs x 8 pods, peer with raised limits", "s", column(ours, 0), column(raised, 0), at_least_faster=1)
    table.add("CPU of the controller for 100 x 8 pods, peer with raised limits", "s", column(ours, 1), column(raised, 1), at_most=0.6)
    table.add("resident memory, idle", "MiB", column(ours, 2), column(raised, 2), at_most=16)
    table.add("resident memory with 800 pods", "MiB", column(ours, 3), column(raised, 3), at_most=24)
    table.add("resident memory with 800 pods, peak", "MiB", column(ours, 4), column(raised, 4))


def finished(kind, job):
    status = job.get("status", {})
    if kind == "ours":
        return status.get("phase") == "Succeeded"
    return any(c["type"] == "Complete" and c["status"] == "True" for c in status.get("conditions", []))


def run_all(place, names):
    for name in names:
        place.bind(name)
    for name in names:
        place.set_running(name)


def is_running(kind, job, replicas):
    status = job.get("status", {})
    return status.get("phase") == "Running" if kind == "ours" else status.get("ready") == replicas


def group_life(world, table):
    """A whole life of one job: its requests, and how soon the last pod's end shows."""
    def measure(kind, controller):
        samples = []
        for _ in range(3):
            with world.namespace() as place:
                jobs = Watch(world.api, (place.job_path(kind, "x")).rsplit("/", 1)[0])
                mark = world.audit_mark()
                place.create_job(kind, "train", 8)
                place.wait_for_pods(8, 30)
                names = sorted(place.pods.first_seen)
                run_all(place, names)
                wait_until("all to run", 30, lambda: is_running(kind, jobs.objects.get("train", {}), 8))
                time.sleep(1.5)  # what is written once a second has been written
                for name in names:
                    place.set_ended(name, 0)
                ended = time.monotonic()
                wait_until("the end", 30, lambda: finished(kind, jobs.objects.get("train", {})))
                shown = min(when for when, _, job in jobs.events if finished(kind, job))
                world.settle(controller, 2)
                requests = [r for r in world.requests(controller, mark) if r[2] == place.name]
                samples.append((len(requests), shown - ended))
                jobs.close()
        print("    ", kind, sorted((f"{v} {r}", sum(1 for x in requests if x[:2] == (v, r))) for v, r in {x[:2] for x in requests}))
        return samples

    values = in_turns(world, ("ours", "shipped"), 2, measure)
    table.add("requests for a job of 8 pods, created -> Succeeded", "requests",
              column(values["ours"], 0), column(values["shipped"], 0), at_most=16)
    table.add("last pod's status change -> job's phase shows it", "s",
              max(0.0, column(values["ours"], 1)), column(values["shipped"], 1), at_most=0.05)


def group_restart(world, table):
    samples = []
    controller = world.start("ours")
    for _ in range(5):
        with world.namespace() as place:
            place.create_job("ours", "train", 8)
            place.wait_for_pods(8, 30)
            names = sorted(place.pods.first_seen)
            run_all(place, names)
            wait_until("all to run", 30, lambda: is_running("ours", world.api.get(place.job_path("ours", "train")), 8))
            world.settle(controller, 1.5)
            mark = world.audit_mark()
            killed = time.monotonic()
            # The pod goes at once and for good, as without a kubelet the survivors do not: they are let go as they are told.
            world.api.delete(f"{PODS.format(place.name)}/{names[3]}", gracePeriodSeconds=0)
            let_go = set()
            while len(place.pods.first_seen) < 16:
                for name, pod in list(place.pods.objects.items()):
                    if pod["metadata"].get("deletionTimestamp") and name not in let_go:
                        let_go.add(name)
                        world.api.delete(f"{PODS.format(place.name)}/{name}", gracePeriodSeconds=0)
                if time.monotonic() > killed + 30:
                    raise SystemExit("no new attempt: " + json.dumps(world.api.get(place.job_path("ours", "train"))["status"]))
            took = max(place.pods.first_seen.values()) - killed
            world.settle(controller, 2)
            requests = [r for r in world.requests(controller, mark) if r[2] == place.name]
            samples.append((took, len(requests)))
    print("    ", sorted((f"{v} {r}", sum(1 for x in requests if x[:2] == (v, r))) for v, r in {x[:2] for x in requests}))
    controller.stop()
    table.add("one pod of 8 killed -> 8 new pods exist", "s", column(samples, 0), at_most=0.3)
    table.add("requests for one restart of 8 pods", "requests", column(samples, 1), at_most=14)


def group_scale(world, table):
    """10,000 pods in 1,250 jobs, all running; then nothing happens."""
    values = {}
    for kind in ("ours", "raised"):
        controller = world.start(kind)
        with world.namespace() as place:
            started = time.monotonic()
            list(world.pool.map(lambda i: place.create_job(kind, f"train-{i}", 8), range(1250)))
            place.wait_for_pods(10000, 300)
            created = time.monotonic() - started
            list(world.pool.map(place.set_running, sorted(place.pods.first_seen)))
            world.settle(controller, 5, 60)
            values[kind] = (controller.resident_mib(), controller.resident_mib(peak=True), created)
            if kind == "ours":
                steady(world, table, controller)
                restarted = world.start("ours")  # a standby: lists everything at its start
                world.settle(restarted, 3)
                values["listed"] = (restarted.resident_mib(), restarted.resident_mib(peak=True))
                restarted.stop()
            controller.stop()
    table.add("resident memory with 10,000 pods in 1,250 jobs", "MiB", values["ours"][0], values["raised"][0], at_most=60)
    table.add("resident memory with 10,000 pods, peak", "MiB", values["ours"][1], values["raised"][1])
    table.add("resident memory with 10,000 pods, listed at the start", "MiB", values["listed"][0])
    table.add("resident memory with 10,000 pods, listed at the start, peak", "MiB", values["listed"][1])
    table.add("10,000 pods in 1,250 jobs, peer with raised limits", "s", values["ours"][2], values["raised"][2])


def steady(world, table, controller, seconds=20):
    mark, cpu = world.audit_mark(), controller.cpu_seconds()
    time.sleep(seconds)
    requests = world.requests(controller, mark)
    print("    ", requests[:5])
    table.add("requests in the steady state, watches and leases apart", "requests", len(requests), at_most=0)
    table.add("CPU in the steady state", "ms/s", (controller.cpu_seconds() - cpu) / seconds * 1000)


def group_start(world, table):
    """From the start of the process to the first write for a job that waits, the lease being free."""
    samples = []
    for _ in range(5):
        world.api.delete("/apis/coordination.k8s.io/v1/namespaces/ddp-system/leases/ddp-operator")
        with world.namespace() as place:
            jobs = Watch(world.api, JOBS.format(place.name))
            place.create_job("ours", "train", 1)
            controller = world.start_operator()
            wait_until("a status", 20, lambda: jobs.objects.get("train", {}).get("status"))
            shown = min(when for when, _, job in jobs.events if job.get("status"))
            samples.append(shown - controller.started)
            jobs.close()
            controller.stop()
    table.add("start -> first reconcile, the lease being free", "s", statistics.median(samples), at_most=0.5)


def group_image(world, table):
    """What an image from scratch holds: the stripped program, the libraries that it loads, and the authorities' certificates."""
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, world.operator], check=True)
        files = {pathlib.Path(stripped.name), pathlib.Path("/etc/ssl/certs/ca-certificates.crt")}
        loaded = subprocess.run(["ldd", world.operator], check=True, capture_output=True, text=True).stdout
        files |= {pathlib.Path(path).resolve() for path in re.findall(r"(/\S+) \(0x", loaded)}
        size = sum(file.stat().st_size for file in files)
    table.add("image from scratch, uncompressed", "MB", size / 1e6, at_most=60)


GROUPS = {"image": group_image, "start": group_start, "small": group_small, "life": group_life, "restart": group_restart,
          "large": group_large, "many": group_many, "scale": group_scale}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operator", default=ROOT / "build/release/bin/ddp-operator", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(GROUPS), help="of " + ", ".join(GROUPS))
    parser.add_argument("--output", default=ROOT / "build/bench/operator.json")
    arguments = parser.parse_args()
    table = Table(arguments.output)
    state = pathlib.Path(tempfile.mkdtemp(prefix="ddp-bench-"))
    state.rmdir()
    world = World(state, arguments.operator.resolve())
    try:
        world.up()
        for name in arguments.only.split(","):
            print(name, flush=True)
            GROUPS[name](world, table)
            table.save()
    finally:
        world.down()
        shutil.rmtree(state, ignore_errors=True)
    missed = [row["name"] for row in table.rows.values() if not row["met"]]
    print(f"{len(table.rows)} rows in {arguments.output}; not met: {missed or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
