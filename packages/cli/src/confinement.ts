/**
 * Limits the fields of pods, DaemonSets, Deployments and Nodes that Berth's account may write. RBAC cannot limit
 * fields: an account that may patch a pod may also change its image.
 */
import type { Changes } from "@berth/host";
import {
  type Container,
  nodes,
  type ValidatingAdmissionPolicy,
  type ValidatingAdmissionPolicyBinding,
} from "@berth/kube";
import { buildDeployment, type OwnerHold, type WorkerPoolConfig } from "@berth/placement";
import { capabilities } from "./capabilities.ts";
import { BEFORE, CONTAINER_DEFAULTS, field, list, literal, NOW } from "./cel.ts";
import { type InstanceConfinement, IS_OF_INSTANCE, instanceConfinement } from "./instance-confinement.ts";

export interface ConfinementOptions {
  /** Metadata of both objects. */
  readonly metadata: NonNullable<ValidatingAdmissionPolicy["metadata"]>;
  /** The account that the API server confines: `system:serviceaccount:…`. */
  readonly username: string;
  /** Kinds of owners that Berth holds with a finalizer, and kinds of owned objects that it deletes. */
  readonly holds: readonly OwnerHold[];
  /** The worker pools for which Berth creates Deployments. Absent: none. */
  readonly pools?: WorkerPoolConfig | undefined;
  /** Which Pods of Instances Berth may create. Absent: none. */
  readonly instances?: InstanceConfinement | undefined;
}

/** Fields that the API server fills in. */
const POD_DEFAULTS = ["restartPolicy", "terminationGracePeriodSeconds", "dnsPolicy", "schedulerName"];

/** CEL: both maps have the same fields, except where `free` holds for the key `k`. Also covers future fields. */
function sameMaps(now: string, before: string, free: string): string {
  return (
    `${now}.all(k, ${free} || k in ${before} && ${now}[k] == ${before}[k]) && ` +
    `${before}.all(k, ${free} || k in ${now})`
  );
}

function same(path: string, free: string | readonly string[]): string {
  const [now = "", before = ""] = [NOW, BEFORE].map((it) => `${field(it, path)}.orValue({})`);
  return sameMaps(now, before, typeof free === "string" ? free : `k in ${literal(free)}`);
}

const only = (resource: string, ...all: readonly string[]): string =>
  `request.resource.resource != "${resource}" || ${all.join(" && ")}`;

/** Of Nodes the writer of nodes changes these, for all capabilities. Text is printed in this order. */
const changes: readonly Changes[] = [
  { fields: [{ resource: nodes, paths: ["spec.taints", "spec.unschedulable"] }] },
  ...capabilities.flatMap((it) => it.changes ?? []).toReversed(),
];
const LIFTED = changes
  .flatMap(({ schedulingGates = [] }) => schedulingGates.map((name) => `g.name == ${literal(name)}`))
  .join(" || ");
const KEEPS_GATES = `${list(BEFORE, "spec.schedulingGates")}.all(g, ${LIFTED} || g in ${list(NOW, "spec.schedulingGates")})`;
const NOT_OURS = changes
  .flatMap(({ conditions = [] }) => conditions.map((type) => `c.type != ${literal(type)}`))
  .join(" && ");

/** The fields that all capabilities together change, by kind. */
const changed = [
  ...Map.groupBy(
    changes.flatMap(({ fields }) => fields),
    ({ resource }) => resource.plural,
  ).values(),
]
  .flatMap(([first, ...more]) => (first === undefined ? [] : [{ first, all: [first, ...more] }]))
  .map(({ first, all }) => Object.assign({}, first, { paths: all.flatMap(({ paths }) => paths) }))
  .sort(({ resource: a }, { resource: b }) => a.group.localeCompare(b.group));

/** CEL: of `spec` only these fields differ. */
function sameBut(paths: readonly string[]): readonly string[] {
  const children = new Map<string, Set<string>>();
  // Within a field that may change as a whole everything may.
  for (const path of paths.filter((it) => !paths.some((other) => it.startsWith(`${other}.`))))
    for (let at = path.indexOf("."); at > 0; at = path.indexOf(".", at + 1)) {
      const [parent, child = ""] = [path.slice(0, at), path.slice(at + 1).split(".", 1)[0]];
      children.set(parent, (children.get(parent) ?? new Set()).add(child));
    }
  return [...children].map(([parent, names]) => same(parent, [...names]));
}

const TEMPLATE = "spec.template.spec";
const METADATA =
  "resourceVersion generation managedFields labels annotations finalizers ownerReferences".split(" ");

/** The API server also counts template changes of a DaemonSet in an annotation. */
const OUR_ANNOTATION = 'k.startsWith("berth.dev/") || k == "deprecated.daemonset.template.generation"';

/** A policy and its binding. They need Kubernetes 1.30. */
export function confinement({
  metadata,
  username,
  holds,
  pools,
  instances,
}: ConfinementOptions): [ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding] {
  const { name = "" } = metadata;
  const apiVersion = "admissionregistration.k8s.io/v1";
  const rule = (group: string, resources: readonly string[], version = "v1") => ({
    apiGroups: [group],
    apiVersions: [version],
    operations: ["CREATE", "UPDATE", "DELETE"] as const,
    resources,
  });
  const known: ReadonlySet<string> = new Set(["pods.", "nodes.", "daemonsets.apps", "deployments.apps"]);
  const listed = new Set(known);
  const finalizers = holds.map(({ finalizer }) => finalizer);
  const held = holds.map(({ resource }) => resource);
  const owned = holds.flatMap(({ onDelete, ownedResources }) =>
    onDelete === "DeleteOwned" ? ownedResources : [],
  );
  const others = [...held, ...owned].filter(({ group, resource }) => {
    const key = `${resource}.${group}`;
    return !listed.has(key) && listed.add(key);
  });
  const isOther = `request.resource.resource in ${literal(others.map(({ resource }) => resource))}`;
  const owners = held.map(({ group }) => (group === "" ? "v1" : `${group}/`));
  const kept = (of: string, than: string): string =>
    `${list(of, "metadata.finalizers")}.all(f, f in ${literal(finalizers)} || f in ${list(than, "metadata.finalizers")})`;
  const validate = (message: string, expression: string) => ({
    expression,
    message: `Berth's account may not ${message}`,
  });
  const foreign = (of: string): string => `${list(of, "status.conditions")}.filter(c, ${NOT_OURS})`;
  return [
    {
      apiVersion,
      kind: "ValidatingAdmissionPolicy",
      metadata,
      spec: {
        failurePolicy: "Fail",
        matchConstraints: {
          resourceRules: [
            rule("", ["pods", "pods/*", "nodes", "nodes/*"]),
            rule("apps", ["daemonsets", "daemonsets/*", "deployments", "deployments/*"]),
            ...changed.flatMap(({ resource: { group, plural } }) =>
              known.has(`${plural}.${group}`) ? [] : [rule(group, [plural, `${plural}/*`], "*")],
            ),
            ...others.map(({ group, resource }) => rule(group, [resource, `${resource}/*`], "*")),
          ],
        },
        matchConditions: [{ name: "berth", expression: `request.userInfo.username == ${literal(username)}` }],
        variables: [
          { name: "now", expression: 'request.operation == "DELETE" ? dyn(oldObject) : dyn(object)' },
          { name: "before", expression: 'request.operation == "CREATE" ? dyn(object) : dyn(oldObject)' },
          {
            name: "pod",
            expression: `request.operation == "CREATE" ? dyn({}) : ${field("dyn(oldObject)", TEMPLATE)}.orValue({})`,
          },
          { name: "isPool", expression: isPool(pools) },
          { name: "isInstance", expression: instances === undefined ? "false" : IS_OF_INSTANCE },
        ],
        validations: [
          validate(
            "make this",
            'request.operation != "CREATE" || variables.isPool || variables.isInstance || request.?subResource.orValue("") == "eviction"',
          ),
          ...(instances === undefined ? [] : instanceConfinement(instances, LIFTED)).map(
            ({ message, expression }) =>
              validate(message, `request.operation != "CREATE" || !variables.isInstance || ${expression}`),
          ),
          validate(
            "delete an object that belongs to no owner that it holds",
            `request.operation != "DELETE" || variables.isInstance || ${list(BEFORE, "metadata.ownerReferences")}.exists(o, ${literal(owners)}.exists(g, o.apiVersion.startsWith(g)))`,
          ),
          validate("change this metadata", same("metadata", METADATA)),
          validate(
            "change owners",
            `variables.isPool || ${list(NOW, "metadata.ownerReferences")} == ${list(BEFORE, "metadata.ownerReferences")}`,
          ),
          validate(
            "change these labels or annotations",
            `request.resource.resource == "nodes" || ${same("metadata.labels", [])} && ${same("metadata.annotations", OUR_ANNOTATION)}`,
          ),
          validate("change this finalizer", `${kept(NOW, BEFORE)} && ${kept(BEFORE, NOW)}`),
          ...changed.map(({ resource: { kind, plural }, paths }) =>
            validate(
              `change this field of a ${/[A-Z].*[A-Z]/.test(kind) ? kind : kind.toLowerCase()}`,
              only(plural, ...sameBut(paths), ...(plural === "pods" ? [KEEPS_GATES] : [])),
            ),
          ),
          validate(
            "change this Deployment: it is not that of a WorkerPool which the document WorkerPools allowed when Berth was installed",
            only("deployments", `(variables.isPool || ${same("spec", [])})`),
          ),
          validate(
            "change this field of an object that it holds",
            `!(${isOther}) || ${sameMaps(NOW, BEFORE, 'k in ["metadata", "status"]')}`,
          ),
          validate(
            "change this status",
            `${isOther} || ${same("status", ["conditions"])} && ${foreign(NOW)} == ${foreign(BEFORE)}`,
          ),
        ],
      },
    },
    {
      apiVersion,
      kind: "ValidatingAdmissionPolicyBinding",
      metadata,
      spec: { policyName: name, validationActions: ["Deny"] },
    },
  ];
}

/** CEL: is it the Deployment of an allowed pool? Its pods may contain only what pools need, or what they had before. */
function isPool(config: WorkerPoolConfig | undefined): string {
  const { images = [], namespaces = [], priorityClasses = [] } = config?.allow ?? {};
  if (config === undefined) return "false";
  const spec = {
    replicas: 0,
    ateomImage: "",
    sandboxClass: "microvm",
    template: { nodeSelector: {}, tolerations: [] },
  } as const;
  const { metadata, spec: made } = buildDeployment({ name: "", namespace: "", uid: "", spec }, config);
  const [owner] = metadata.ownerReferences ?? [];
  const pod = made.template.spec;
  const [worker] = pod?.containers ?? [];
  const template = `${field(NOW, TEMPLATE)}.orValue({})`;
  const all = (what: string, holds: string): string =>
    `${list(NOW, `${TEMPLATE}.${what}`)}.all(c, c in variables.pod.?${what}.orValue([]) || ${holds})`;
  const isOneOf = (prefixes: readonly string[]): string =>
    `${literal(prefixes)}.exists(p, c.image.startsWith(p))`;
  return [
    'request.resource.resource == "deployments"',
    `${NOW}.metadata.namespace in ${literal(namespaces)}`,
    ...[NOW, BEFORE].map(
      (it) =>
        `${list(it, "metadata.ownerReferences")}.exists(o, o.apiVersion == "${owner?.apiVersion}" && o.kind == "${owner?.kind}")`,
    ),
    `${field(NOW, `${TEMPLATE}.priorityClassName`)}.orValue("") in ${literal(["", ...priorityClasses])}`,
    sameMaps(
      template,
      "variables.pod",
      `k in ${literal([...Object.keys(pod ?? {}), "initContainers", ...POD_DEFAULTS])}`,
    ),
    all("containers", isLike(worker, isOneOf(images))),
    all(
      "initContainers",
      pod?.initContainers?.map((it) => isLike(it, `c.image == ${literal(it.image)}`)).join() ?? "false",
    ),
    all("volumes", `c in ${literal(pod?.volumes)}`),
  ].join(" && ");
}

/** CEL: `c` runs the same as the container. Resources and defaults may differ, and so may the source of its uid. */
function isLike(container: Container | undefined, hasImage: string): string {
  const { name, command, args, env = [], securityContext, volumeMounts = [] } = container ?? {};
  const exact = Object.entries({ name, command, args, securityContext });
  return [
    `c.all(k, k in ${literal([...Object.keys(container ?? {}), ...CONTAINER_DEFAULTS])})`,
    hasImage,
    ...exact.flatMap(([key, value]) => (value === undefined ? [] : [`c.${key} == ${literal(value)}`])),
    `c.env.all(e, e.name in ${literal(env.map((it) => it.name))})`,
    `c.?volumeMounts.orValue([]).all(m, m in ${literal(volumeMounts)})`,
  ].join(" && ");
}
