package main

import (
	"testing"

	"windlass.dev/plugin/windlasstest"
)

func TestCRDIsThatOfTheTypes(t *testing.T) {
	windlasstest.CRD(t, plugin, "crd.json")
}

func TestConfigSchemaIsThatOfTheType(t *testing.T) {
	windlasstest.ConfigSchema[Config](t, "config.json")
}
