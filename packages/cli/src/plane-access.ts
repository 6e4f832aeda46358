/** What lets a hub use a cluster: an account with a token that does not end, its rights, and a policy. */
import {
  askedAboutOthers,
  cellHomeRules,
  instances,
  MANAGED,
  type Plane,
  planeRules,
  workloadDeployments,
} from "@berth/fleet";
import type {
  KubeObject,
  PolicyRule,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from "@berth/kube";
import { selectorCel } from "@berth/placement";
import { and, each, field, literal, NOW, only, or } from "./cel.ts";
import { OF_PROJECTS } from "./instance-confinement.ts";
import { namespaceOf } from "./manifests.ts";

export interface PlaneAccessOptions {
  readonly plane: Plane;
  /** Of the account. In a cell it is that of Berth. */
  readonly namespace: string;
  readonly installation: string;
  /** Needs Kubernetes 1.30. */
  readonly confinement: boolean;
}

/** In the order of creation: the account is confined before it has rights, and has rights before it has a token. */
export function planeAccess(options: PlaneAccessOptions): readonly KubeObject[] {
  const { plane, namespace, installation, confinement } = options;
  const name = installation === "berth" ? "berth-hub" : `berth-${installation}-hub`;
  const metadata = {
    name,
    labels: { "app.kubernetes.io/name": "berth", "app.kubernetes.io/instance": installation },
  };
  const own = { ...metadata, namespace };
  const [apiGroup, version] = ["rbac.authorization.k8s.io", "v1"];
  const given = (
    kind: "ClusterRole" | "Role",
    of: NonNullable<KubeObject["metadata"]>,
    rules: readonly PolicyRule[],
  ) => [
    { apiVersion: `${apiGroup}/${version}`, kind, metadata: of, rules },
    {
      apiVersion: `${apiGroup}/${version}`,
      kind: `${kind}Binding`,
      metadata: of,
      roleRef: { apiGroup, kind, name },
      subjects: [{ kind: "ServiceAccount", name, namespace }],
    },
  ];
  const token = {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { ...own, annotations: { "kubernetes.io/service-account.name": name } },
    type: "kubernetes.io/service-account-token",
  };
  const policyOf = policies[plane];
  return [
    ...namespaceOf(namespace),
    { apiVersion: "v1", kind: "ServiceAccount", metadata: own } satisfies KubeObject,
    ...(confinement && policyOf !== undefined
      ? policyPair(metadata, policyOf(`system:serviceaccount:${namespace}:${name}`))
      : []),
    ...given("ClusterRole", metadata, planeRules[plane]),
    ...(plane === "cell" ? given("Role", own, cellHomeRules) : []),
    token,
  ];
}

const [{ key: PROJECT }] = OF_PROJECTS.matchExpressions;
const NAMESPACE = "meta.datumapis.com/upstream-namespace";

type Policy = NonNullable<ValidatingAdmissionPolicy["spec"]>;

const policies: Readonly<Partial<Record<Plane, (username: string) => Policy>>> = {
  cell: hubConfinement,
  project: projectProtection,
};

function policyPair(
  metadata: NonNullable<KubeObject["metadata"]>,
  spec: Policy,
): readonly [ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding] {
  const apiVersion = "admissionregistration.k8s.io/v1";
  const { name = "" } = metadata;
  return [
    { apiVersion, kind: "ValidatingAdmissionPolicy", metadata, spec },
    {
      apiVersion,
      kind: "ValidatingAdmissionPolicyBinding",
      metadata,
      spec: { policyName: name, validationActions: ["Deny"] },
    },
  ];
}

/** The API server of a project cannot ask the hub. So users change nothing of what the hub writes, labels included. */
function projectProtection(username: string): Policy {
  const { group } = instances;
  return {
    failurePolicy: "Fail",
    matchConstraints: {
      // The cluster may be the hub as well, which another account writes.
      namespaceSelector: { matchExpressions: [{ key: PROJECT, operator: "DoesNotExist" }] },
      resourceRules: [
        {
          apiGroups: [group],
          apiVersions: ["*"],
          operations: ["CREATE", "UPDATE", "DELETE"],
          resources: [instances, workloadDeployments].flatMap(({ plural }) => [plural, `${plural}/status`]),
        },
      ],
    },
    matchConditions: askedAboutOthers({ self: username, providers: { users: [], groups: [] } }),
    validations: [{ expression: "false", message: MANAGED, reason: "Forbidden" }],
  };
}

/** RBAC limits neither names nor labels: a label of a new namespace could lift Pod Security for what runs there. */
function hubConfinement(username: string): Policy {
  const { group, plural } = workloadDeployments;
  const of = (path: string): string => `${field(NOW, path)}.orValue({})`;
  const when = (resource: string, ...all: readonly string[]): string =>
    or(`request.resource.resource != "${resource}"`, and(...all));
  const validate = (message: string, expression: string) => ({
    message: `a hub may not ${message}`,
    expression,
  });
  return {
    failurePolicy: "Fail",
    matchConstraints: {
      resourceRules: [
        { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["namespaces"] },
        {
          apiGroups: [group],
          apiVersions: ["*"],
          operations: ["CREATE", "UPDATE", "DELETE"],
          resources: [plural],
        },
      ],
    },
    matchConditions: [{ name: "hub", expression: `request.userInfo.username == ${literal(username)}` }],
    variables: [{ name: "now", expression: 'request.operation == "DELETE" ? dyn(oldObject) : dyn(object)' }],
    validations: [
      validate(
        "make this namespace: its name, labels or annotations are not those of a namespace of a project",
        when(
          "namespaces",
          `${NOW}.metadata.name.startsWith("ns-")`,
          ...[PROJECT, NAMESPACE].map((key) => `${literal(key)} in ${of("metadata.labels")}`),
          only(of("metadata.labels"), [PROJECT, NAMESPACE, "kubernetes.io/metadata.name"]),
          only(of("metadata.annotations"), ["berth.dev/upstream-cluster-name"]),
          each(NOW, "metadata.finalizers", "f, false"),
        ),
      ),
      validate(
        "write this deployment: it is not of a hub, or not in a namespace of a project",
        when(
          plural,
          `"berth.dev/hub-uid" in ${of("metadata.annotations")}`,
          ...selectorCel(OF_PROJECTS, "namespaceObject"),
        ),
      ),
    ],
  };
}
