// Command controller-runtime is the benchmark's operator (see bench/guest) on Go's
// controller-runtime, tuned as a good engineer would tune it: no client-side rate limit, watches by
// label, caches without managedFields, an index by owner, creates by POST (faster than by apply) and
// changes by server-side apply, no write where nothing differs.
package main

import (
	"flag"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

func main() {
	kubeconfig := flag.String("operator-kubeconfig", "", "the API server")
	workers := flag.Int("workers", 16, "parents that are reconciled at once")
	resync := flag.Duration("resync", 10*time.Hour, "time between reconciles that nothing caused")
	flag.Parse()
	log.SetLogger(zap.New())
	if err := run(*kubeconfig, *workers, *resync); err != nil {
		log.Log.Error(err, "ended")
		os.Exit(1)
	}
}

func run(kubeconfig string, workers int, resync time.Duration) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	unlimited(config)
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	addLoads(scheme)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{
			SyncPeriod:       &resync,
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.ConfigMap{}: {Label: labels.SelectorFromSet(childLabels)},
			},
		},
	})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if err := manager.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, ownerIndex, ownerOf); err != nil {
		return err
	}
	// A status of our own is no news.
	changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, resynced{})
	err = ctrl.NewControllerManagedBy(manager).
		Named("load").
		For(&Load{}, withPredicates(changed)).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&reconciler{client: manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

func unlimited(config *rest.Config) {
	config.QPS = -1
}
