module postgres

go 1.26

require windlass.dev/plugin v0.1.0

require go.yaml.in/yaml/v3 v3.0.4 // indirect

replace windlass.dev/plugin => ../../../sdk/go
