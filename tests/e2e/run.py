#!/usr/bin/env python3
"""End-to-end tests: the operator's and the runtime's images on a real cluster with a node.

usage: run.py --build BUILD_FOLDER [--keep] [--only WORD] [--pictures FOLDER] [--nightly]

--keep leaves the cluster up afterwards (until this process is interrupted), to look around in.
--pictures draws the dashboards' panels from what Prometheus has, as FOLDER/<dashboard>.png (needs matplotlib).
--nightly also builds and runs what a user's own C++ trainer would be.
--only runs just the chains of scenarios in which a module or a name has the word. On a failure the logs
of everything are collected in BUILD_FOLDER/e2e-logs. The last line counts the checks.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

import chart_checks
import fault_checks
import gallery_checks
import operator_checks
import pictures
import progress_checks
import sample_checks
from testbed import CLUSTER, ROOT, Cluster, Failed, Report

# Each list is a chain: after a failure the rest of it has nothing to stand on and is left out.
CHAINS = [
    [
        sample_checks.starts_as_designed,
        sample_checks.survives_a_deleted_pod,
        sample_checks.survives_a_killed_worker,
        sample_checks.survives_the_operator_and_the_api_server,
        sample_checks.succeeds_and_leaves_a_checkpoint,
        sample_checks.is_collected_when_deleted,
    ],
    [
        progress_checks.shows_progress,
        progress_checks.restarts_when_stalled,
        progress_checks.is_suspended_resumed_and_restarted,
    ],
    [fault_checks.restarts_in_time_though_survivors_are_deaf],
    [fault_checks.books_the_loss_of_a_node],
    [
        gallery_checks.samples_do_what_they_say,
        gallery_checks.gpus_that_are_not_there_are_named,
        gallery_checks.a_deleted_job_is_resumed,
    ],
    [operator_checks.runs_a_foreign_image],
    [operator_checks.refuses_bad_manifests],
    [operator_checks.asked_no_more_than_it_may],
    [
        chart_checks.installs_under_an_odd_name,
        chart_checks.passes_helm_test,
        chart_checks.runs_the_samples,
        chart_checks.is_scraped_by_prometheus,
        chart_checks.fills_every_panel,
        chart_checks.raises_an_alarm_for_a_stalled_job,
        chart_checks.upgrades_with_a_job_running,
        chart_checks.uninstalls_with_a_job_running,
    ],
]

OPERATOR_IMAGE_BYTES = 60_000_000  # its layers are not compressed in the archive

NIGHTLY_CHAINS = [[operator_checks.runs_an_own_trainer]]


def run_chain(scenarios, cluster, report, context):
    """Runs scenarios one after another up to the first failure; whether all held."""
    for scenario in scenarios:
        report.section(scenario.__doc__.splitlines()[0].rstrip("."))
        try:
            scenario(cluster, report, context)
        except Failed as failure:
            report.fail(str(failure))
        except Exception as error:  # a fault of the test itself: the cluster must still be ended
            report.fail(f"{error!r}\n{traceback.format_exc()}")
        else:
            continue
        for left_out in scenarios[scenarios.index(scenario) + 1 :]:
            report.section(left_out.__doc__.splitlines()[0].rstrip("."))
            report.fail("not run, because what it builds on failed")
        return False
    return True


def state_folder(build):
    """In the build folder, unless its path is too long for the sockets in it."""
    folder = build / "e2e"
    if len(str(folder)) <= 80:
        return folder
    return pathlib.Path(
        tempfile.gettempdir(), "ddp-e2e-" + hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    )


def images(build, nightly):
    """Archives of the images under test; built only where they have changed."""
    names = ["operator", "runtime", "foreign", *(["own-trainer"] if nightly else [])]
    done = subprocess.run(
        [ROOT / "tests/testbed/images.sh", *names],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"INSTALL_TREE": str(build / "install")},
    )
    return done.stdout.split()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--pictures", type=pathlib.Path)
    parser.add_argument("--nightly", action="store_true")
    options = parser.parse_args()

    report, cluster = Report(), Cluster(state_folder(options.build))
    archives = images(options.build, options.nightly)
    try:
        report.section("a cluster with a node")
        cluster.up()
        report.check("is ready", True)
        cluster.load_images(archives)
        report.check("has the images", True)
        size = next(pathlib.Path(a).stat().st_size for a in archives if "/operator-" in a)
        report.check(f"the operator's is of {size / 1e6:.0f} MB", size <= OPERATOR_IMAGE_BYTES)
        context = {"build": options.build}
        if options.pictures:
            context["pictures"] = lambda prometheus: pictures.draw(prometheus, options.pictures)
        if run_chain([operator_checks.install], cluster, report, context):
            for chain in [*(NIGHTLY_CHAINS if options.nightly else []), *CHAINS]:
                if any(options.only in f"{s.__module__}.{s.__name__}" for s in chain):
                    run_chain(chain, cluster, report, context)
        if report.failed:
            cluster.collect(options.build / "e2e-logs")
            print(
                "\nFailed:\n  "
                + "\n  ".join(report.failed)
                + f"\nLogs of everything: {options.build}/e2e-logs"
            )
        if options.keep:
            print(
                f"\nkept: {CLUSTER} enter {cluster.state} kubectl get pods -A     (Ctrl-C ends it)",
                flush=True,
            )
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        pass
    finally:
        cluster.down()
    print(f"\n{time.monotonic() - report.started:.0f} s", flush=True)
    print(f"e2e: {report.passed} passed, {len(report.failed)} failed", flush=True)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
