// The version of the resources of Prometheus' operator that the chart's monitors and rules are checked against.
module ddpjob.dev/testbed/prometheus-crds

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
