// The careful peer: what a Go controller written with care on controller-runtime does with the work that the benchmark
// gives Berth. No client-side rate limit, 16 workers, one merge patch for a label, nothing written that is there.
//
// It sets a label to "true" on the nodes that have the device label, and removes it from those that have it without
// the device. With -pods it also keeps every pod, or those that two selectors leave, and an index of pods by node. With -also
// it keeps further resources. With -fleet it does none of this: see fleet.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const userAgent = "bench-careful"

func main() {
	var options options
	flag.StringVar(&options.kubeconfig, "config", "", "kubeconfig file")
	flag.StringVar(&options.device, "device", "", "label that a node must have")
	flag.StringVar(&options.label, "label", "", "label to keep in step with it")
	flag.BoolVar(&options.pods, "pods", false, "keep all pods, with an index by node")
	flag.StringVar(&options.podLabels, "pod-labels", "", "label selector of the pods that are kept")
	flag.StringVar(&options.podFields, "pod-fields", "", "field selector of the pods that are kept")
	flag.StringVar(&options.also, "also", "", "keep these as well: daemonsets, namespaces")
	flag.BoolVar(&options.strip, "strip", false, "drop managedFields before an object is kept")
	flag.BoolVar(&options.fleet, "fleet", false, "keep Instances, their pods and claims, and nothing else")
	flag.IntVar(&options.workers, "workers", 16, "concurrent reconciles")
	flag.Parse()
	go collectWhenAsked()
	if err := run(ctrl.SetupSignalHandler(), options); err != nil {
		fmt.Fprintln(os.Stderr, "careful:", err)
		os.Exit(1)
	}
}

type options struct {
	kubeconfig, device, label  string
	podLabels, podFields, also string
	pods, strip, fleet         bool
	workers                    int
}

func run(ctx context.Context, o options) error {
	log.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	// A negative QPS is no limit; the default of 20 a second would be all that is measured.
	config.QPS = -1
	config.UserAgent = userAgent
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	caching := cache.Options{}
	if o.strip {
		caching.DefaultTransform = cache.TransformStripManagedFields()
	}
	if o.fleet {
		addFleetTypes(scheme)
		o.podLabels = deploymentUID
	}
	if caching.ByObject, err = selectPods(o.podLabels, o.podFields); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  caching,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	})
	if err != nil {
		return err
	}
	if o.pods {
		if err := keepPods(ctx, mgr); err != nil {
			return err
		}
	}
	if err := keepAlso(ctx, mgr, o.also); err != nil {
		return err
	}
	if o.fleet {
		err = addFleet(ctx, mgr, o.workers)
	} else {
		err = addLabels(mgr, o)
	}
	if err != nil {
		return err
	}
	if err := mgr.Add(sayWhenSynced(mgr)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func addLabels(mgr ctrl.Manager, o options) error {
	r := &reconciler{Client: mgr.GetClient(), device: o.device, label: o.label}
	return ctrl.NewControllerManagedBy(mgr).
		For(&corev1.Node{}).
		WithEventFilter(r.predicate()).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.workers}).
		Complete(r)
}

// sayWhenSynced prints a line, for whoever measures this process, once all caches are filled.
func sayWhenSynced(mgr ctrl.Manager) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		if mgr.GetCache().WaitForCacheSync(ctx) {
			fmt.Println("synced")
		}
		return nil
	})
}

// collectWhenAsked collects all garbage and gives the memory back at each SIGUSR1, and says so: what is resident then is
// what the caches hold. By itself Go does that minutes after a sync.
func collectWhenAsked() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	for range asked {
		debug.FreeOSMemory()
		fmt.Println("collected")
	}
}

// selectPods bounds the informer of pods: the server does not send others.
func selectPods(podLabels, podFields string) (map[client.Object]cache.ByObject, error) {
	byLabel, err := labels.Parse(podLabels)
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(podFields)
	return map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: byLabel, Field: byField}}, err
}

// keepAlso starts informers on these resources.
func keepAlso(ctx context.Context, mgr ctrl.Manager, resources string) error {
	kinds := map[string]client.Object{"daemonsets": &appsv1.DaemonSet{}, "namespaces": &corev1.Namespace{}}
	for _, resource := range strings.FieldsFunc(resources, func(r rune) bool { return r == ',' }) {
		object, known := kinds[resource]
		if !known {
			return fmt.Errorf("-also does not know %q", resource)
		}
		if _, err := mgr.GetCache().GetInformer(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// keepPods starts an informer on all pods, with the index that finds those of a node.
func keepPods(ctx context.Context, mgr ctrl.Manager) error {
	byNode := func(object client.Object) []string {
		if name := object.(*corev1.Pod).Spec.NodeName; name != "" {
			return []string{name}
		}
		return nil
	}
	return mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, "spec.nodeName", byNode)
}

type reconciler struct {
	client.Client
	device, label string
}

// due says whether the label must be set or removed.
func (r *reconciler) due(labels map[string]string) bool {
	_, has := labels[r.device]
	value, labelled := labels[r.label]
	return has != labelled || (has && value != "true")
}

// predicate lets through only nodes with something to do.
func (r *reconciler) predicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.due(e.Object.GetLabels()) },
		UpdateFunc: func(e event.UpdateEvent) bool { return r.due(e.ObjectNew.GetLabels()) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var node corev1.Node
	if err := r.Get(ctx, request.NamespacedName, &node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !r.due(node.Labels) {
		return ctrl.Result{}, nil
	}
	before := client.MergeFrom(node.DeepCopy())
	if _, has := node.Labels[r.device]; has {
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[r.label] = "true"
	} else {
		delete(node.Labels, r.label)
	}
	// The label itself says who owns it; a node deleted meanwhile needs none.
	return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, &node, before, client.FieldOwner("bench-careful")))
}
