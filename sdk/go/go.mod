module windlass.dev/plugin

go 1.26

// YAML, for the golden cases of windlasstest. No component contains it.
require go.yaml.in/yaml/v3 v3.0.4
