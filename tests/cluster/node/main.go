// The programs of a real node in one file: kubelet and kube-proxy, chosen by
// the first argument.
//
// Not a part of the control plane's program: most tests need no node, and
// these two make it half as large again.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	component := ""
	if len(os.Args) > 1 {
		component = os.Args[1]
		os.Args = os.Args[1:]
	}
	switch component {
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kube-proxy":
		os.Exit(cli.Run(proxy.NewProxyCommand()))
	}
	fmt.Fprintf(os.Stderr, "usage: %s kubelet|kube-proxy [FLAGS]\n", os.Args[0])
	os.Exit(2)
}
