package main

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// With -fleet the peer keeps what a cell keeps: deployments, Instances by deployment, their pods and their claims, in
// typed caches. It looks at an Instance when the Instance, its pod or its claim changes, and writes nothing.

const (
	deploymentUID     = "compute.datumapis.com/workload-deployment-uid"
	instanceNamespace = "compute.datumapis.com/instance-namespace"
	claimPrefix       = "instance-"
)

func addFleet(ctx context.Context, mgr ctrl.Manager, workers int) error {
	byDeployment := func(object client.Object) []string {
		if uid := object.GetLabels()[deploymentUID]; uid != "" {
			return []string{uid}
		}
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &Instance{}, "deployment", byDeployment); err != nil {
		return err
	}
	if _, err := mgr.GetCache().GetInformer(ctx, &WorkloadDeployment{}); err != nil {
		return err
	}
	ofClaim := func(_ context.Context, claim client.Object) []reconcile.Request {
		namespace, name := claim.GetLabels()[instanceNamespace], claim.GetName()
		if namespace == "" || len(name) <= len(claimPrefix) {
			return nil
		}
		key := types.NamespacedName{Namespace: namespace, Name: name[len(claimPrefix):]}
		return []reconcile.Request{{NamespacedName: key}}
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&Instance{}).
		Owns(&corev1.Pod{}).
		Watches(&ResourceClaim{}, handler.EnqueueRequestsFromMapFunc(ofClaim)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&looker{mgr.GetClient()})
}

type looker struct{ client.Client }

// Reconcile reads from the caches what a decision about an Instance needs.
func (l *looker) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var instance Instance
	if err := l.Get(ctx, request.NamespacedName, &instance); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var pod corev1.Pod
	if err := l.Get(ctx, request.NamespacedName, &pod); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	var claim ResourceClaim
	key := types.NamespacedName{Namespace: request.Namespace, Name: claimPrefix + request.Name}
	return ctrl.Result{}, client.IgnoreNotFound(l.Get(ctx, key, &claim))
}

func addFleetTypes(scheme *runtime.Scheme) {
	compute := schema.GroupVersion{Group: "compute.datumapis.com", Version: "v1alpha"}
	quota := schema.GroupVersion{Group: "quota.miloapis.com", Version: "v1alpha1"}
	scheme.AddKnownTypes(compute, &Instance{}, &InstanceList{}, &WorkloadDeployment{}, &WorkloadDeploymentList{})
	scheme.AddKnownTypes(quota, &ResourceClaim{}, &ResourceClaimList{})
	metav1.AddToGroupVersion(scheme, compute)
	metav1.AddToGroupVersion(scheme, quota)
}

type named struct {
	Name string `json:"name"`
}

type instanceSpec struct {
	Runtime struct {
		Resources struct {
			InstanceType string              `json:"instanceType"`
			Requests     corev1.ResourceList `json:"requests,omitempty"`
		} `json:"resources"`
		Sandbox *struct {
			Containers []struct {
				Name      string                      `json:"name"`
				Image     string                      `json:"image"`
				Env       []corev1.EnvVar             `json:"env,omitempty"`
				Resources corev1.ResourceRequirements `json:"resources,omitempty"`
				Ports     []struct {
					Name     string `json:"name"`
					Port     int32  `json:"port"`
					Protocol string `json:"protocol,omitempty"`
				} `json:"ports,omitempty"`
			} `json:"containers"`
		} `json:"sandbox,omitempty"`
	} `json:"runtime"`
	NetworkInterfaces []struct {
		Network named `json:"network"`
	} `json:"networkInterfaces"`
	Controller *struct {
		TemplateHash    string  `json:"templateHash"`
		SchedulingGates []named `json:"schedulingGates,omitempty"`
	} `json:"controller,omitempty"`
}

type instanceStatus struct {
	Conditions        []metav1.Condition `json:"conditions,omitempty"`
	NetworkInterfaces []struct {
		Assignments struct {
			NetworkIP string `json:"networkIP,omitempty"`
		} `json:"assignments"`
	} `json:"networkInterfaces,omitempty"`
	Controller *struct {
		ObservedTemplateHash string `json:"observedTemplateHash"`
	} `json:"controller,omitempty"`
}

type Instance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              instanceSpec   `json:"spec"`
	Status            instanceStatus `json:"status"`
}

type InstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Instance `json:"items"`
}

type WorkloadDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		CityCode      string `json:"cityCode"`
		PlacementName string `json:"placementName"`
		Template      struct {
			Spec instanceSpec `json:"spec"`
		} `json:"template"`
		ScaleSettings struct {
			MinReplicas int32 `json:"minReplicas"`
		} `json:"scaleSettings"`
	} `json:"spec"`
	Status struct {
		Conditions    []metav1.Condition `json:"conditions,omitempty"`
		Replicas      int32              `json:"replicas"`
		ReadyReplicas int32              `json:"readyReplicas"`
	} `json:"status"`
}

type WorkloadDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []WorkloadDeployment `json:"items"`
}

type ResourceClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ConsumerRef corev1.TypedLocalObjectReference `json:"consumerRef"`
		ResourceRef corev1.TypedLocalObjectReference `json:"resourceRef"`
		Requests    []struct {
			ResourceType string `json:"resourceType"`
			Amount       int64  `json:"amount"`
		} `json:"requests"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status"`
}

type ResourceClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ResourceClaim `json:"items"`
}

// The peer only reads what the caches hand out, so what lies below metadata and conditions may be shared.

func (o *Instance) DeepCopyObject() runtime.Object {
	copied := *o
	o.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Conditions = slices.Clone(o.Status.Conditions)
	return &copied
}

func (o *WorkloadDeployment) DeepCopyObject() runtime.Object {
	copied := *o
	o.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Conditions = slices.Clone(o.Status.Conditions)
	return &copied
}

func (o *ResourceClaim) DeepCopyObject() runtime.Object {
	copied := *o
	o.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Conditions = slices.Clone(o.Status.Conditions)
	return &copied
}

func (l *InstanceList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = slices.Clone(l.Items)
	return &copied
}

func (l *WorkloadDeploymentList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = slices.Clone(l.Items)
	return &copied
}

func (l *ResourceClaimList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = slices.Clone(l.Items)
	return &copied
}
