// Writes the reference of the manifest, docs/manifest.md.
module ddpjob.dev/testbed/crd-reference

go 1.26.0

require gopkg.in/yaml.v3 v3.0.1
