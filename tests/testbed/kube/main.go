// Command kube holds every Kubernetes program that the test bed starts. One binary links the shared
// libraries once; a symbolic link with a program's name runs that program, as busybox does.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// cobraProgram adapts a program built on cobra; its own exit status is kept.
func cobraProgram(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          cobraProgram(apiserver.NewAPIServerCommand),
	"kube-controller-manager": cobraProgram(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          cobraProgram(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              cobraProgram(kubeproxy.NewProxyCommand),
	"kubelet": cobraProgram(func() *cobra.Command {
		return kubelet.NewKubeletCommand(context.Background())
	}),
	"kubectl": func() int {
		command := kubectlcmd.NewDefaultKubectlCommand()
		if err := cli.RunNoErrOutput(command); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	},
}

func main() {
	name := filepath.Base(os.Args[0])
	run, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "kube: call it by a link named like one of its programs (%s), not %q\n",
			strings.Join(slices.Sorted(maps.Keys(programs)), ", "), name)
		os.Exit(64)
	}
	os.Exit(run())
}
