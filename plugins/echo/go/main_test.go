package main

import (
	"testing"

	"windlass.dev/plugin/windlasstest"
)

func TestResponsesAreTheExpectedOnes(t *testing.T) {
	windlasstest.Golden(t, plugin, "../cases", windlasstest.Shared)
}

func TestCRDIsThatOfTheTypes(t *testing.T) {
	windlasstest.CRD(t, plugin, "crd.json")
}

func TestCRDIsThatOfTheOtherLanguages(t *testing.T) {
	windlasstest.CRD(t, plugin, "../crd.json")
}
