/** The hook that runs `berth clean` before the chart is uninstalled: a Job, with rights of its own. */
import type { ClusterRole, Deployment, Job, KubeObject, PolicyRule } from "@berth/kube";

const VERBS: Readonly<Record<string, string>> = {
  get: "get",
  list: "list",
  watch: "list",
  patch: "patch",
  delete: "delete",
};
/** What `clean` reads of every installation, whatever its capabilities: earlier ones may have had others. */
const ALWAYS: readonly PolicyRule[] = [
  { apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "patch"] },
  { apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "patch"] },
  { apiGroups: ["apps"], resources: ["daemonsets"], verbs: ["get", "list", "patch"] },
  { apiGroups: ["apps"], resources: ["deployments"], verbs: ["list"] },
  // An earlier release had one of its own for admission policies.
  { apiGroups: [""], resources: ["serviceaccounts"], verbs: ["list"] },
  {
    apiGroups: ["admissionregistration.k8s.io"],
    resources: [
      "mutatingwebhookconfigurations",
      "validatingwebhookconfigurations",
      "mutatingadmissionpolicies",
      "mutatingadmissionpolicybindings",
    ],
    verbs: ["list", "delete"],
  },
];

/** In its namespace: to stop Berth, and to delete its state. */
const ownRules = (name: string): readonly PolicyRule[] => [
  { apiGroups: ["apps"], resources: ["deployments"], resourceNames: [name], verbs: ["get", "patch"] },
  { apiGroups: [""], resources: ["namespaces"], verbs: ["get"] },
  { apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["list", "delete"] },
  { apiGroups: [""], resources: ["secrets", "configmaps"], verbs: ["get", "list", "delete"] },
  { apiGroups: [""], resources: ["serviceaccounts"], verbs: ["delete"] },
];

/** @param objects of the installation. @param timeoutSeconds of the Job. */
export function cleanupHook(objects: readonly KubeObject[], timeoutSeconds: number): readonly KubeObject[] {
  const pod = objects.find(({ kind }) => kind === "Deployment") as Deployment;
  const { name = "", namespace = "", labels = {} } = pod.metadata ?? {};
  const own = `${name}-cleanup`;
  const rbac = "rbac.authorization.k8s.io";
  const rules = objects.flatMap((it) => (it.kind === "ClusterRole" ? ((it as ClusterRole).rules ?? []) : []));
  const metadata = (weight: number, isNamespaced = true) => ({
    name: own,
    ...(isNamespaced && { namespace }),
    // Not those by which the Deployment and its Services select pods.
    labels: Object.fromEntries(
      Object.entries(labels).filter(([key]) => !key.startsWith("app.kubernetes.io/name")),
    ),
    annotations: {
      "helm.sh/hook": "pre-delete",
      "helm.sh/hook-weight": String(weight),
      "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded,hook-failed",
      "helm.sh/hook-output-log-policy": "hook-succeeded,hook-failed",
    },
  });
  const subjects = [{ kind: "ServiceAccount", name: own, namespace }];
  const role = (kind: "ClusterRole" | "Role", all: readonly PolicyRule[]): readonly KubeObject[] => {
    const of = metadata(-1, kind === "Role");
    const roleRef = { apiGroup: rbac, kind, name: own };
    return [
      { apiVersion: `${rbac}/v1`, kind, metadata: of, rules: all } as KubeObject,
      { apiVersion: `${rbac}/v1`, kind: `${kind}Binding`, metadata: of, roleRef, subjects } as KubeObject,
    ];
  };
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: metadata(-2) },
    ...role("ClusterRole", [...ALWAYS, ...rules.flatMap(toCleaning)]),
    ...role("Role", ownRules(name)),
    jobOf(pod, { metadata: metadata(0), account: own, timeoutSeconds }),
  ];
}

/** What Berth may change, `clean` may change back. It creates nothing, and writes no status. */
function toCleaning(rule: PolicyRule): readonly PolicyRule[] {
  // Of what documents hold, the verbs are a token: `clean` takes finalizers back.
  const given: readonly string[] = Array.isArray(rule.verbs) ? rule.verbs : ["get", "list", "patch"];
  const verbs = [...new Set(given.flatMap((it) => VERBS[it] ?? []))];
  const resources = rule.resources?.filter((it) => !it.includes("/") && it !== "events") ?? [];
  return verbs.length === 0 || resources.length === 0 ? [] : [{ ...rule, resources, verbs }];
}

/** The pod of the Deployment, with another command and account. */
function jobOf(
  { spec }: Deployment,
  of: { readonly metadata: Job["metadata"]; readonly account: string; readonly timeoutSeconds: number },
): Job {
  const {
    topologySpreadConstraints: _spread,
    affinity: _affinity,
    ...pod
  } = spec?.template.spec ?? { containers: [] };
  const [container = { name: "" }] = pod.containers;
  const { ports: _ports, startupProbe: _s, livenessProbe: _l, readinessProbe: _r, ...rest } = container;
  const isKept = (arg: string): boolean => /^--(?:config|namespace|installation)=/.test(arg);
  const args = ["clean", "--yes", "--stop", ...(container.args ?? []).filter(isKept)];
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    ...(of.metadata && { metadata: of.metadata }),
    spec: {
      backoffLimit: 2,
      activeDeadlineSeconds: of.timeoutSeconds,
      template: {
        spec: {
          ...pod,
          serviceAccountName: of.account,
          restartPolicy: "Never",
          containers: [{ ...rest, args }],
        },
      },
    },
  };
}
