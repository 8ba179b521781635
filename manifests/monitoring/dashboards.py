#!/usr/bin/env python3
"""Writes the three Grafana dashboards, dashboards/*.json.

usage: dashboards.py [--check]      --check: fail when a file is not as it would be written

A dashboard is rows of panels, a panel is a few words about what it shows, its unit and its queries. Units are Grafana's
names. Every query is run by the end-to-end tests in a real Prometheus, and must return data there.
"""

import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
HEIGHT = {"stat": 4, "table": 9, "timeseries": 8, "heatmap": 8}
# Jobs that the two variables choose; and the operator's own pods.
JOB = 'namespace=~"$namespace", job_name=~"$job_name"'
OPERATOR = 'namespace=~"$namespace"'


def query(expression, legend="", **more):
    return {"expr": expression, "legendFormat": legend, **more}


def thresholds(*steps):
    """thresholds("green", (0.1, "red")): the color below all, then from each value on."""
    base = {"color": steps[0], "value": None}
    return {"mode": "absolute", "steps": [base] + [{"color": c, "value": v} for v, c in steps[1:]]}


def panel(
    kind,
    title,
    description,
    unit,
    queries,
    width=8,
    limits=None,
    stack=False,
    low=None,
    names=None,
    options=None,
):
    """One panel. `limits`: thresholds; `names`: {value: text} shown in place of a number."""
    defaults = {
        "unit": unit,
        "thresholds": limits or thresholds("green"),
        "color": {"mode": "palette-classic"},
    }
    if kind in ("stat", "table"):
        defaults["color"] = {"mode": "thresholds"}
    if low is not None:
        defaults["min"] = low
    if names:
        shown = {
            str(value): {"text": text, "color": color, "index": i}
            for i, (value, text, color) in enumerate(names)
        }
        defaults["mappings"] = [{"type": "value", "options": shown}]
    if kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if stack else 8,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if stack else "none", "group": "A"},
            "thresholdsStyle": {"mode": "line" if limits else "off"},
        }
    default_options = {
        "timeseries": {
            "legend": {
                "displayMode": "list",
                "placement": "bottom",
                "showLegend": True,
                "calcs": [],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "stat": {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "textMode": "auto",
            "wideLayout": True,
            "showPercentChange": False,
            "percentChangeColorMode": "standard",
            "reduceOptions": {"calcs": ["lastNotNull"], "values": False, "fields": ""},
        },
        "table": {"showHeader": True, "cellHeight": "sm", "frameIndex": 0},
    }[kind]
    targets = [
        {"refId": chr(ord("A") + i), "datasource": SOURCE, **q} for i, q in enumerate(queries)
    ]
    if kind in ("stat", "table"):
        for target in targets:
            target["instant"], target["range"] = True, False
            if kind == "table":
                target["format"] = "table"
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": SOURCE,
        "gridPos": {"h": HEIGHT[kind], "w": width, "x": 0, "y": 0},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": default_options | (options or {}),
        "targets": targets,
        **({"transformations": []} if kind == "table" else {}),
    }


def stat(*arguments, width=4, **more):
    return panel("stat", *arguments, width=width, **more)


def graph(*arguments, **more):
    return panel("timeseries", *arguments, **more)


def table(title, description, unit, columns, **more):
    """A row for each job. `columns`: (name, expression); joined by namespace and job."""
    made = panel(
        "table", title, description, unit, [query(e) for _, e in columns], width=24, **more
    )
    kept = {"Time": True}
    names = {"namespace": "Namespace", "job_name": "Job"}
    names |= {f"Value #{chr(ord('A') + i)}": name for i, (name, _) in enumerate(columns) if name}
    order = {name: i for i, name in enumerate(["namespace", "job_name", "phase"])}
    made["transformations"] = [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {"excludeByName": kept, "renameByName": names, "indexByName": order},
        },
    ]
    return made


def variable(name, label, of, multi=True, description=""):
    return {
        "type": "query",
        "name": name,
        "label": label,
        "description": description,
        "datasource": SOURCE,
        "query": {"query": of, "refId": "variable"},
        "definition": of,
        "refresh": 2,
        "sort": 1,
        "multi": multi,
        "includeAll": multi,
        "allValue": ".*" if multi else None,
        **({"current": {"text": ["All"], "value": ["$__all"]}} if multi else {}),
        "options": [],
        "regex": "",
        "hide": 0,
        "skipUrlSync": False,
    }


def dashboard(uid, title, description, variables, rows):
    panels, y, number = [], 0, 0
    for name, row in rows:
        number += 1
        grid = {"h": 1, "w": 24, "x": 0, "y": y}
        panels.append(
            {
                "type": "row",
                "id": number,
                "title": name,
                "collapsed": False,
                "gridPos": grid,
                "panels": [],
            }
        )
        y, x, height = y + 1, 0, 0
        for made in row:
            number += 1
            place = made["gridPos"]
            if x + place["w"] > 24:
                x, y, height = 0, y + height, 0
            place["x"], place["y"] = x, y
            x, height = x + place["w"], max(height, place["h"])
            panels.append({"id": number, **made})
        y += height
    source = {
        "type": "datasource",
        "name": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "refresh": 1,
        "multi": False,
        "includeAll": False,
        "options": [],
        "regex": "",
        "hide": 0,
        "skipUrlSync": False,
    }
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["ddp"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [source, *variables]},
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "DDPJob",
                "tags": ["ddp"],
                "asDropdown": False,
                "icon": "external link",
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
                "tooltip": "",
                "url": "",
            }
        ],
        "panels": panels,
    }


def rate(metric, by, where=OPERATOR, window="$__rate_interval"):
    return f"sum by ({by}) (rate({metric}{{{where}}}[{window}]))"


def one(name, label=""):
    """A series of each job; a standby serves the same as the leader, and a job must not count twice."""
    by = f"namespace, job_name, {label}" if label else "namespace, job_name"
    return f"max by ({by}) (ddpjob_job_{name}{{{JOB}}})"


def latest(metric, label=""):
    """A gauge of rank 0's: one line for each job, though another pod tells of it after a restart."""
    by = "namespace, job_name" + (f", {label}" if label else "")
    return f"max by ({by}) ({metric}{{{JOB}}})"


def quantile(share, metric, where, by=""):
    by = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({by}) (rate({metric}_bucket{{{where}}}[$__rate_interval])))"


def mean(metric, where, by="namespace, job_name"):
    return f"{rate(metric + '_sum', by, where)} / {rate(metric + '_count', by, where)}"


NAMESPACES_OF_JOBS = variable("namespace", "Namespace", "label_values(ddpjob_job_phase, namespace)")
JOBS = variable(
    "job_name", "Job", 'label_values(ddpjob_job_phase{namespace=~"$namespace"}, job_name)'
)
PHASES = 'phase=~"Pending|Starting|Running|Restarting"'

OPERATOR_HEALTH = dashboard(
    "ddp-operator-health",
    "DDPJob / Operator health",
    "Whether the operator acts, keeps up, and gets answers from the API server.",
    [variable("namespace", "Operator's namespace", "label_values(leader_election_master_status, namespace)")],
    [
        ("Now", [
            stat("Leaders", "Operators that hold the lease: one, always. None for seconds only while one takes over.", "none",
                 [query(f"sum(leader_election_master_status{{{OPERATOR}}})")], limits=thresholds("red", (1, "green"), (2, "red"))),
            stat("Operators", "That Prometheus reaches; all but the leader are standbys.", "none",
                 [query(f"count(leader_election_master_status{{{OPERATOR}}})")], limits=thresholds("red", (1, "green"))),
            stat("Jobs", "In the leader's cache, finished ones included.", "none", [query(f"sum(max by (phase) (ddpjob_jobs{{{OPERATOR}}}))")]),
            stat("Pods", "Of all jobs, in the leader's cache.", "none", [query(f"max(ddpjob_pods{{{OPERATOR}}})")]),
            stat("Failed requests", "To the API server: 5xx, throttled, or without an answer, over 5 minutes.", "percentunit",
                 [query(f"max(instance:rest_client_requests_failed:ratio_rate5m{{{OPERATOR}}})")],
                 limits=thresholds("green", (0.01, "orange"), (0.05, "red"))),
            stat("Up since", "Start of the oldest operator.", "dateTimeFromNow",
                 [query(f"min(process_start_time_seconds{{{OPERATOR}}} and on (namespace, pod) leader_election_master_status) * 1000")]),
        ]),
        ("Work", [
            graph("Reconciliations", "Looks at a job, by how they ended. Errors are tried again with growing pauses.", "ops",
                  [query(rate("controller_runtime_reconcile_total", "result"), "{{result}}")], stack=True),
            graph("Duration of a reconciliation", "From taking a job from the queue to being done with it.", "s",
                  [query(quantile(q, "controller_runtime_reconcile_time_seconds", OPERATOR), f"p{int(q * 100)}") for q in (0.5, 0.9, 0.99)], low=0),
            graph("Queue", "Jobs that wait to be looked at by the leader. Growing without an end: more workers, or a slow API server.", "none",
                  [query(f'max by (pod) (workqueue_depth{{{OPERATOR}, name="ddpjob"}} and on (namespace, pod) leader_election_master_status == 1)', "{{pod}}")], low=0,
                  limits=thresholds("green", (50, "red"))),
            graph("Wait in the queue", "Between a change of a job and the look at it.", "s",
                  [query(quantile(q, "workqueue_queue_duration_seconds", f'{OPERATOR}, name="ddpjob"'), f"p{int(q * 100)}") for q in (0.5, 0.9, 0.99)], low=0),
            graph("Workers", "Busy ones of those there are, and the longest that one has been busy with one job (seconds).", "none",
                  [query(f"sum(controller_runtime_active_workers{{{OPERATOR}}})", "busy"),
                   query(f"sum(controller_runtime_max_concurrent_reconciles{{{OPERATOR}}})", "all"),
                   query(f'max(workqueue_longest_running_processor_seconds{{{OPERATOR}, name="ddpjob"}})', "longest, s")], low=0),
            graph("Tried again", "Jobs put back into the queue after an error, and panics (there should be none).", "ops",
                  [query(rate("workqueue_retries_total", "name"), "retries"),
                   query(f"sum(rate(controller_runtime_reconcile_panics_total{{{OPERATOR}}}[$__rate_interval]))", "panics")], low=0),
        ]),
        ("API server", [
            graph("Requests to the API server", "By answer; <error>: none came. In the steady state only the lease is renewed.", "reqps",
                  [query(rate("rest_client_requests_total", "code"), "{{code}}")], stack=True),
            graph("Pods created and refused", "One request each. Refused: quota, admission, a template that the API server does not take.", "ops",
                  [query(f"sum(rate(ddpjob_pods_created_total{{{OPERATOR}}}[$__rate_interval]))", "created"),
                   query(f"sum(rate(ddpjob_pod_create_failures_total{{{OPERATOR}}}[$__rate_interval]))", "refused"),
                   query(f"sum(rate(ddpjob_attempt_deletions_total{{{OPERATOR}}}[$__rate_interval]))", "attempts deleted")], low=0),
            graph("Status writes", "And those that another writer was ahead of; these are repeated.", "ops",
                  [query(f"sum(rate(ddpjob_status_writes_total{{{OPERATOR}}}[$__rate_interval]))", "written"),
                   query(f"sum(rate(ddpjob_status_conflicts_total{{{OPERATOR}}}[$__rate_interval]))", "conflicts")], low=0),
            graph("Events", "Sent, and lost because the queue was full or the API server refused them.", "ops",
                  [query(f"sum(rate(ddpjob_events_sent_total{{{OPERATOR}}}[$__rate_interval]))", "sent"),
                   query(f"sum(rate(ddpjob_events_dropped_total{{{OPERATOR}}}[$__rate_interval]))", "lost")], low=0),
            graph("Progress pulls", "Of rank 0 of each running job. Failed: an image that serves no progress, or a network policy in between.", "ops",
                  [query(rate("ddpjob_progress_pulls_total", "result"), "{{result}}")], low=0),
        ]),
        ("Process", [
            graph("Memory", "Resident.", "bytes", [query(f"process_resident_memory_bytes{{{OPERATOR}}} and on (namespace, pod) leader_election_master_status", "{{pod}}")], low=0),
            graph("Threads", "Should not grow.", "none", [query(f"process_threads{{{OPERATOR}}} and on (namespace, pod) leader_election_master_status", "{{pod}}")], low=0),
            graph("Open files", "Should not grow.", "none", [query(f"process_open_fds{{{OPERATOR}}} and on (namespace, pod) leader_election_master_status", "{{pod}}")], low=0),
        ]),
    ],
)  # fmt: skip

JOBS_DASHBOARD = dashboard(
    "ddp-jobs",
    "DDPJob / Jobs",
    "Phases, restarts by cause, time until jobs run, failures.",
    [NAMESPACES_OF_JOBS, JOBS],
    [
        ("Now", [
            stat(name, what, "none", [query(f'count(max by (namespace, job_name) (ddpjob_job_phase{{{JOB}, phase=~"{phases}"}}) == 1) or vector(0)')], limits=limits)
            for name, what, phases, limits in (
                ("Running", "All ranks run.", "Running", thresholds("green")),
                ("Waiting", "Pending or Starting: not all pods run yet.", "Pending|Starting", thresholds("green", (1, "orange"))),
                ("Restarting", "Between two attempts.", "Restarting", thresholds("green", (1, "orange"))),
                ("Suspended", "Have no pods, by wish of a user or a queue.", "Suspended", thresholds("blue")),
                ("Succeeded", "And still there.", "Succeeded", thresholds("green")),
                ("Failed", "And still there, for their logs.", "Failed", thresholds("green", (1, "red"))),
            )
        ]),
        ("Jobs", [
            table("All jobs", "One row for each: what `kubectl get ddp` shows, and more.", "none", [
                ("", f"{one('phase', 'phase')} == 1"),
                ("Attempt", one("attempt")),
                ("Restarts", f"sum by (namespace, job_name) ({one('restarts', 'cause')})"),
                ("Pods ready", one("replicas_ready")),
                ("Step", one("step")),
                ("Loss", one("loss")),
                ("Samples/s", one("samples_per_second")),
            ]),
        ]),
        ("Life", [
            graph("Jobs by phase", "Finished jobs stay in it until they are deleted.", "none",
                  [query(f"count by (phase) ({one('phase', 'phase')} == 1)", "{{phase}}")], stack=True, low=0),
            graph("Finished", "Jobs that have ended, within an hour, by result (of all namespaces).", "none",
                  [query("sum by (result) (increase(ddpjob_jobs_finished_total[1h]))", "{{result}}")], low=0),
            graph("Time to running", "From creation, or the end of a suspension, until all ranks run (all jobs).", "s",
                  [query(f"histogram_quantile({q}, sum by (le) (rate(ddpjob_time_to_running_seconds_bucket[1h])))", f"p{int(q * 100)}") for q in (0.5, 0.9)], low=0),
            graph("Restarts by cause", "Within an hour. application and stall count toward maxRestarts; infrastructure and preemption are the cluster's doing.", "none",
                  [query(f"sum by (cause) (max by (namespace, job_name, cause) (increase(ddpjob_job_restarts{{{JOB}}}[1h])))", "{{cause}}")], stack=True, low=0),
            graph("Restarts by job", "Within an hour.", "none",
                  [query(f"sum by (namespace, job_name) (max by (namespace, job_name, cause) (increase(ddpjob_job_restarts{{{JOB}}}[1h])))", "{{namespace}}/{{job_name}}")], low=0),
            graph("Pods ready", "Share of the pods that a job wants.", "percentunit",
                  [query(f"{one('replicas_ready')} / {one('replicas_desired')}", "{{namespace}}/{{job_name}}")], low=0),
        ]),
        ("Progress", [
            graph("Done", "Share of the steps of the whole run.", "percentunit",
                  [query(f"{one('step')} / ({one('total_steps')} > 0)", "{{namespace}}/{{job_name}}")], low=0),
            graph("Since the last step", "Of running jobs. The alert DDPJobStalled comes after 15 minutes.", "s",
                  [query(f'time() - ({one("last_step_timestamp_seconds")} and on (namespace, job_name) ddpjob_job_phase{{phase="Running"}} == 1)',
                         "{{namespace}}/{{job_name}}")], low=0, limits=thresholds("green", (900, "red"))),
            graph("Age of the newest checkpoint", "Of running jobs: the work that a restart now would lose.", "s",
                  [query(f'time() - ({one("checkpoint_timestamp_seconds")} and on (namespace, job_name) ddpjob_job_phase{{phase="Running"}} == 1)',
                         "{{namespace}}/{{job_name}}")], low=0, limits=thresholds("green", (3600, "red"))),
            graph("Conditions", "Jobs for which a condition holds: Stalled, TransportWarning (no NVLink between one-GPU pods), ProgressAvailable.", "none",
                  [query(f"sum by (type) ({one('condition', 'type')})", "{{type}}")], low=0),
        ]),
    ],
)  # fmt: skip

SPLIT = (
    ("data_wait", "waiting for data"),
    ("forward", "forward"),
    ("backward", "backward"),
    ("exposed_communication", "exposed communication"),
    ("optimizer", "optimizer"),
)

TRAINING = dashboard(
    "ddp-training",
    "DDPJob / Training",
    "What rank 0 of a job tells: loss, speed, where the time of a step goes, who is slow.",
    [NAMESPACES_OF_JOBS | {"query": {"query": "label_values(ddp_step, namespace)", "refId": "variable"}, "definition": "label_values(ddp_step, namespace)"},
     JOBS | {"query": {"query": 'label_values(ddp_step{namespace=~"$namespace"}, job_name)', "refId": "variable"},
             "definition": 'label_values(ddp_step{namespace=~"$namespace"}, job_name)'}],
    [
        ("Now", [
            stat("Done", "Share of the steps of the whole run.", "percentunit", [query(f"max by (namespace, job_name) (ddp_step{{{JOB}}} / (ddp_total_steps{{{JOB}}} > 0))", "{{job_name}}")]),
            stat("Loss", "Mean over the ranks.", "none", [query(f"max by (namespace, job_name) (ddp_loss{{{JOB}}})", "{{job_name}}")]),
            stat("Samples/s", "Of all ranks together.", "none", [query(f"max by (namespace, job_name) (ddp_samples_per_second{{{JOB}}})", "{{job_name}}")]),
            stat("Step time", "Mean over 5 minutes.", "s", [query(f"namespace_job_name:ddp_step_seconds:mean5m{{{JOB}}}", "{{job_name}}")]),
            stat("Lost to the slowest rank", "Share of the time that the others wait for it.", "percentunit",
                 [query(f"namespace_job_name:ddp_straggler_loss:ratio_rate5m{{{JOB}}}", "{{job_name}}")], limits=thresholds("green", (0.05, "orange"), (0.2, "red"))),
            stat("Checkpoint", "Age of the newest complete one.", "s",
                 [query(f"time() - max by (namespace, job_name) (ddp_checkpoint_timestamp_seconds{{{JOB}}} > 0)", "{{job_name}}")],
                 limits=thresholds("green", (1800, "orange"), (3600, "red"))),
        ]),
        ("Learning", [
            graph("Training loss", "Mean over the ranks.", "none", [query(latest("ddp_loss"), "{{job_name}}")]),
            graph("Accuracy", "Share of the test set that is right, where the training has one.", "percentunit", [query(latest("ddp_eval_accuracy"), "{{job_name}}")]),
            graph("Learning rate", "Of the last step.", "none", [query(latest("ddp_learning_rate"), "{{job_name}}")], low=0),
            graph("Steps", "Done, and of the whole run.", "none",
                  [query(latest("ddp_step"), "{{job_name}}"), query(latest("ddp_total_steps"), "{{job_name}}, of")], low=0),
            graph("Gradient norm", "Before clipping. A jump before the loss rises: a bad batch, or too high a learning rate.", "none",
                  [query(latest("ddp_gradient_norm"), "{{job_name}}")], low=0),
            graph("Epochs", "Finished.", "none", [query(latest("ddp_epoch"), "{{job_name}}")], low=0),
        ]),
        ("Speed", [
            graph("Samples/s", "Of all ranks together.", "none", [query(latest("ddp_samples_per_second"), "{{job_name}}")], low=0),
            graph("Step time", "Of rank 0's steps.", "s",
                  [query(quantile(q, "ddp_step_seconds", JOB, "job_name"), f"{{{{job_name}}}} p{int(q * 100)}") for q in (0.5, 0.9, 0.99)], low=0),
            graph("Where the time of a step goes", "Seconds of each step, of rank 0. Exposed communication is what backward did not hide.", "s",
                  [query(mean(f"ddp_{name}_seconds", JOB), f"{{{{job_name}}}} {text}") for name, text in SPLIT], stack=True, low=0),
            graph("Exposed communication", "Share of the time of a step. Above 10 %: larger batches, gradient accumulation, bf16 compression, or a faster network.", "percentunit",
                  [query(f"{rate('ddp_exposed_communication_seconds_sum', 'namespace, job_name', JOB)} / {rate('ddp_step_seconds_sum', 'namespace, job_name', JOB)}", "{{job_name}}")],
                  low=0, limits=thresholds("green", (0.1, "orange"), (0.3, "red"))),
            graph("Bytes reduced", "By rank 0's collectives.", "Bps", [query(rate("ddp_collective_bytes_total", "namespace, job_name", JOB), "{{job_name}}")], low=0),
            graph("Time to save a checkpoint", "In the background; training goes on meanwhile.", "s", [query(mean("ddp_checkpoint_seconds", JOB), "{{job_name}}")], low=0),
        ]),
        ("Trouble", [
            graph("Checkpoints not saved, steps skipped, ranks that differ", "Within an hour; should all be 0. Skipped: gradients were not finite.", "none",
                  [query(f"sum by (namespace, job_name) (increase(ddp_{name}{{{JOB}}}[1h]))", f"{{{{job_name}}}} {text}")
                   for name, text in (("checkpoint_failures_total", "not saved"), ("skipped_steps_total", "skipped"),
                                      ("parameter_hash_mismatches_total", "differ"))], low=0),
            graph("Training held up by a checkpoint", "Seconds for each, in which no step was done.", "s",
                  [query(mean("ddp_checkpoint_stall_seconds", JOB), "{{job_name}}")], low=0),
            graph("Slowest rank", "The rank that the others wait for; -1: none stands out.", "none", [query(latest("ddp_slowest_rank"), "{{job_name}}")]),
        ]),
        ("Ranks", [
            graph("Waiting for others", "Share of its time that each rank waits in collectives. The slowest rank is the one that waits least.", "percentunit",
                  [query(f"namespace_job_name_rank:ddp_rank_wait_seconds:rate5m{{{JOB}}}", "{{job_name}} rank {{rank}}")], low=0),
            graph("Behind the first", "Steps that each rank is behind the one that is farthest.", "none",
                  [query(f"{latest('ddp_rank_step')} - on (namespace, job_name) group_right () {latest('ddp_rank_step', 'rank')}", "{{job_name}} rank {{rank}}")], low=0),
            graph("Last sign of life", "Since each rank was heard of by rank 0.", "s",
                  [query(f"time() - {latest('ddp_rank_heartbeat_timestamp_seconds', 'rank')}", "{{job_name}} rank {{rank}}")], low=0, limits=thresholds("green", (30, "red"))),
        ]),
    ],
)  # fmt: skip

DASHBOARDS = {
    "ddp-operator-health": OPERATOR_HEALTH,
    "ddp-jobs": JOBS_DASHBOARD,
    "ddp-training": TRAINING,
}


def main():
    check, bad = sys.argv[1:] == ["--check"], 0
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    FOLDER.mkdir(exist_ok=True)
    for name, made in DASHBOARDS.items():
        path, text = FOLDER / f"{name}.json", json.dumps(made, indent=1, ensure_ascii=False) + "\n"
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is not as dashboards.py writes it: run it", file=sys.stderr)
            bad = 1
    sys.exit(bad)


if __name__ == "__main__":
    main()
