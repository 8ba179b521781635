"""Every sample that needs no GPU, on the node: cut short, and with as little CPU asked for as two cores have, but else as it is."""

import random
import re

from operator_checks import ended
from testbed import ROOT


def sample(name, **shorter):
    """The sample's text, with other values for some of its keys."""
    text = (ROOT / f"manifests/samples/{name}.yaml").read_text(encoding="utf-8")
    text = re.sub(r'cpu: ("\d+"|\d+m)', "cpu: 50m", text)
    for key, value in shorter.items():
        text, found = re.subn(rf"\b{key}: [\d.]+", f"{key}: {value}", text)
        assert found, f"{name}.yaml has no {key}"
    return text


def cifar_files():
    """Images of noise in CIFAR-10's binary form: a byte of label and 3 x 32 x 32 of colours each."""
    dice = random.Random(1)
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    return {
        name: b"".join(bytes([dice.randrange(10)]) + dice.randbytes(3072) for _ in range(8))
        for name in names
    }


def samples_do_what_they_say(cluster, report, context):
    """The samples that a CPU can run end well."""
    text = b"One rank after another, and all of them together.\n" * 400
    data = cluster.claim("training-data")
    for name, content in {"some.txt": text, **cifar_files()}.items():
        (data / name).write_bytes(content)
    for claim in ("gpt-checkpoint", "resnet-checkpoint", "shakespeare-checkpoints"):
        cluster.volume(claim)
    without_gpus = sample("resnet", epochs=1, batchSize=8).replace("-cuda:", ":")
    without_gpus = re.sub(r"limits: \{nvidia.com/gpu: 2\}", "requests: {cpu: 50m}", without_gpus)
    short = {"maxSteps": 20, "evaluateEverySteps": 10, "everySteps": 10, "generateTokens": 20}
    texts = {
        "gpt": sample("gpt", **short),
        "shakespeare": sample("shakespeare", **short),
        "resnet": without_gpus,
        "kueue": sample("kueue"),
    }
    for name, manifest in texts.items():
        cluster.kubectl("apply", "-f", "-", stdin=manifest)
    for name in texts:
        job = cluster.wait(f"{name} to end", 180, lambda: ended(cluster, name))  # noqa: B023
        status = job["status"]
        report.equal(f"{name} ends", (status["phase"], status["restarts"]["total"]), ("Succeeded", 0))
    pods = cluster.list("pods", "ddpjob.dev/job-name in (gpt, resnet, shakespeare, kueue)")
    report.equal("their pods stay for their logs", len(pods), 2 + 1 + 2 + 4)
    queues = {pod["metadata"]["labels"].get("kueue.x-k8s.io/queue-name") for pod in pods}
    report.equal("Kueue would find the pods of its sample", queues, {None, "team-queue"})
    said = cluster.kubectl("logs", "-l", "ddpjob.dev/job-name=gpt,ddpjob.dev/rank=0", "--tail=-1")
    report.check("the GPT writes at its end", "the model writes:" in said, said[-2000:])
    cluster.kubectl("delete", "ddp", *texts)


def gpus_that_are_not_there_are_named(cluster, report, context):
    """A sample that wants GPUs says on a node without any what it waits for."""
    cluster.kubectl("apply", "-f", ROOT / "manifests/samples/multi-gpu.yaml")

    def message():
        conditions = cluster.status("multi-gpu").get("conditions", [])
        text = " ".join(condition["message"] for condition in conditions)
        return "nvidia.com/gpu" in text and text

    report.check(cluster.wait("the job to say so", 60, message)[:160], True)
    cluster.kubectl("delete", "ddp", "multi-gpu")


def a_deleted_job_is_resumed(cluster, report, context):
    """The sample that is deleted and applied again goes on where it was."""
    cluster.volume("resume-checkpoint")
    manifest = sample("resume", epochs=100_000)

    def reached(what):
        return (cluster.status("resume").get(what) or {}).get("step", 0) > 0

    cluster.kubectl("apply", "-f", "-", stdin=manifest)
    cluster.wait("a checkpoint", 90, lambda: reached("checkpoint"))
    cluster.kubectl("delete", "ddp", "resume")
    cluster.wait("its pods to go", 90, lambda: not cluster.list("pods", "ddpjob.dev/job-name=resume"))
    report.check("the claim is still there", cluster.get("pvc", "resume-checkpoint"))
    cluster.kubectl("apply", "-f", "-", stdin=manifest)
    cluster.wait("training to go on", 90, lambda: reached("progress"))
    log = cluster.kubectl("logs", "resume-1-0", "--tail=-1")
    found = re.search(r"resuming step=(\d+)", log)
    report.check(f"from step {found and found[1]}", found and int(found[1]) > 0, log[:3000])
    cluster.kubectl("delete", "ddp", "resume")
    cluster.wait("its pods to go", 90, lambda: not cluster.list("pods", "ddpjob.dev/job-name=resume"))
    cluster.kubectl("delete", "pvc", "resume-checkpoint")
