"""The cost of metrics, progress and heartbeats, beside the compute of a small step."""

from harness import Row, Suite


def suite(build):
    return Suite(
        name="telemetry",
        sides={"ours": [build / "bin/telemetry_bench"]},
        rows=[
            Row(
                name="telemetry of a step, beside the compute of a 1.86 M-parameter MLP's",
                ours="telemetry.cost",
                peer="telemetry.step",
                unit="us",
                target="<= 0.005",
                scale=1e6,
            )
        ],
    )
