// The version of Grafana's types that dashboards are checked against.
module ddpjob.dev/testbed/dashboard-check

go 1.26.0

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
