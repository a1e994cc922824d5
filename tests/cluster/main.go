// A real Kubernetes control plane in one file: kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl and etcd (etcd.go), chosen
// by the name of the file or else by the first argument.
//
// One binary rather than five, because they share nearly all their code: it is
// a third of the size, and a third of the time to link.
//
// This file is also built with older and newer versions of Kubernetes, which
// use the same etcd.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJobs name time zones, and the machine may have no database of them.

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// components maps each name to the component's own main, which reads os.Args
// as if it had been started alone.
var components = map[string]func(){
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) },
	"kube-scheduler":          func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
	"kubectl": func() {
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	},
}

func main() {
	own := filepath.Base(os.Args[0])
	if component, ok := components[own]; ok {
		component()
		return
	}
	if len(os.Args) > 1 {
		if component, ok := components[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			component()
			return
		}
	}
	names := make([]string, 0, len(components))
	for name := range components {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "usage: %s COMPONENT [FLAGS]\nCOMPONENT is one of %s; a link to this file by one of these names works too.\n",
		own, strings.Join(names, ", "))
	os.Exit(2)
}
