/** What `berth manifests` prints for each setting of the chart's switches, with tokens in place of texts. */
import { type FleetSpec, fleetKind } from "@berth/fleet";
import { admissionServerKind, type DocumentKind, documentOfFlag, toDocuments } from "@berth/host";
import type { ClusterRole, KubeObject, PolicyRule, ServiceAccount } from "@berth/kube";
import {
  architecturePolicyKind,
  architectureRuntimeClasses,
  nodeFootprintKind,
  type OwnerHold,
  startupGateKind,
  workerPoolsKind,
} from "@berth/placement";
import { capabilityNames } from "../../packages/cli/src/capability-names.ts";
import { documentKinds } from "../../packages/cli/src/kinds.ts";
import { installManifests } from "../../packages/cli/src/manifests.ts";
import { DOCUMENTS_PATH, type MountedSecret, OPERATOR_PATH } from "../../packages/cli/src/manifests-pod.ts";
import { nodeNotifierKind } from "../../packages/placement/src/deschedule/notify/document.ts";
import { cleanupHook } from "./cleanup.ts";
import type { Setting } from "./symbolic.ts";
import { conditions, number, token } from "./values.ts";

export const switches: readonly string[] = Object.keys(conditions);

/** Switches that are on only beside one of these. */
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  poolWait: ["pools"],
  ...Object.fromEntries(
    [
      "management",
      "single",
      "hubSelf",
      "projectsSelf",
      "karmada",
      "writeBack",
      "pods",
      "networks",
      "quota",
    ].map((it) => [it, ["fleet"]]),
  ),
  quotaHere: ["quota"],
  quotaBeside: ["config", "serverConfig"],
  certificatesBeside: ["config", "serverConfig"],
};

/** Objects that are installed, without their Namespace: helm makes it. */
export function chartObjects(on: Setting): readonly KubeObject[] | undefined {
  if (Object.entries(NEEDED).some(([one, of]) => on.has(one) && !of.some((it) => on.has(it))))
    return undefined;
  const rights = {
    documents: documentsOf(on),
    flags: on,
    capabilities: capabilityNames.optional.filter((it) => on.has(it)),
  };
  const objects = installManifests({
    image: token("image"),
    namespace: token("namespace"),
    installation: token("installation"),
    replicas: on.has("several") ? 2 : 1,
    rules: new Map(on.has("labelFiles") ? [[token("labelPath"), token("labelText")]] : []),
    ...(on.has("config") && {
      documents: new Map([
        ["documents.yaml", token("documents")],
        [token("filePath"), token("fileText")],
      ]),
    }),
    ...(on.has("serverConfig") && { operator: new Map([["config.yaml", token("serverConfig")]]) }),
    flags: [
      `--allow-reserved=${token("reserved")}`,
      ...(on.has("extended") ? ["--label-format=extended"] : []),
      ...(on.has("cell") ? ["--enable-cell-controllers"] : []),
      ...(on.has("featureGates") ? [`--feature-gates=${token("featureGates")}`] : []),
      ...(on.has("project") ? [`--project=${token("project")}`] : []),
    ],
    secrets: secretsOf(on),
    ports: { metrics: number.metricsPort, webhook: number.webhookPort },
    confinement: on.has("confinement"),
    apiServerCidrs: on.has("cidrs") ? [token("cidr")] : [],
    holds: [hold],
    rights,
    patch: {
      metadata: {
        labels: { [token("podLabel")]: token("podLabelValue") },
        ...(on.has("podAnnotations") && {
          annotations: { [token("podAnnotation")]: token("podAnnotationValue") },
        }),
      },
      spec: {
        serviceAccountName: token("account"),
        priorityClassName: token("priorityClass"),
        ...(on.has("pullSecretsOfPod") && { imagePullSecrets: [{ name: token("pullSecret") }] }),
        ...(on.has("tolerations") && { tolerations: [{ key: token("toleration") }] }),
        volumes: [{ name: token("volume") }],
        containers: [
          {
            name: "berth",
            env: [{ name: token("env") }],
            volumeMounts: [{ name: token("volumeMount"), mountPath: token("volumeMount") }],
          },
        ],
      },
    },
  });
  const account: ServiceAccount = {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: {
      name: token("account"),
      namespace: token("namespace"),
      labels: { "app.kubernetes.io/name": "berth", "app.kubernetes.io/instance": token("installation") },
    },
  };
  const installed = [
    ...(on.has("account") ? [account] : []),
    ...objects.filter(({ kind }) => kind !== "Namespace"),
  ].map((it) => withValues(it, on));
  return [...installed, ...(on.has("cleanup") ? cleanupHook(installed, number.timeout) : [])];
}

/** Repeated in a loop. */
export function runtimeClasses(on: Setting): readonly KubeObject[] {
  const taintKeys = on.has("taintKeys") ? [token("taintKey")] : [];
  return architectureRuntimeClasses([token("architecture")], { handler: token("handler"), taintKeys });
}

const held = { group: token("heldGroup"), version: "v1", resource: token("held") };
const hold: OwnerHold = {
  resource: held,
  finalizer: token("finalizer"),
  onDelete: "Wait",
  ownedResources: [],
};

function documentsOf(on: Setting) {
  const given = <S>(kind: DocumentKind<S>, spec: unknown) => ({
    ...documentOfFlag(kind, kind.spec.parse(spec)),
    name: token("document"),
  });
  const workloads = [{ podSelector: { matchLabels: { a: "b" } } }];
  const daemonSet = { namespace: "a", name: "b" };
  return toDocuments([], documentKinds, [
    given(startupGateKind, {
      taint: { key: token("evictingTaint"), effect: "NoExecute" },
      signals: { labelsSettled: true },
    }),
    given(architecturePolicyKind, { mode: "Taint", taint: { key: token("architectureTaint") } }),
    ...(on.has("adopted")
      ? [given(admissionServerKind, { configuration: { name: token("adopted"), webhook: "a" } })]
      : []),
    given(nodeFootprintKind, {
      workloads,
      group: { by: "PodLabel", label: "a" },
      node: { label: { key: "example.com/a" } },
      ...(on.has("manage") && { agent: { daemonSet, nodeSelector: "Manage" } }),
      ...(on.has("holds") && {
        hold: { resource: held, finalizer: "a.b/c", onDelete: "Wait", ownedResources: [] },
      }),
    }),
    ...(on.has("notifiers")
      ? [given(nodeNotifierKind, { keys: ["a"], job: { namespace: "a", cronJob: token("cronJob") } })]
      : []),
    ...(on.has("pools") ? [given(workerPoolsKind, poolsOf(on))] : []),
    ...(on.has("fleet") ? [given(fleetKind, fleetOf(on))] : []),
  ]).documents;
}

function poolsOf(on: Setting): object {
  const allow = {
    images: [`${token("poolImage")}/`],
    namespaces: [token("poolNamespace")],
    priorityClasses: [token("poolPriority")],
  };
  const wait = { name: token("waitName"), image: token("waitImage"), port: number.waitPort };
  return { allow, ...(on.has("poolWait") && { wait }) };
}

function fleetOf(on: Setting): Partial<FleetSpec> {
  const kubeconfig = "/a";
  if (on.has("management"))
    return {
      mode: "management",
      driver: on.has("karmada") ? "karmada" : "direct",
      hub: on.has("hubSelf") ? "self" : { kubeconfig },
      projects: on.has("projectsSelf") ? "self" : { kubeconfigs: [{ path: "a", kubeconfig }] },
    };
  const from = on.has("quotaHere") ? "Cluster" : "Projects";
  return {
    mode: on.has("single") ? "single" : "cell",
    cell: token("cell"),
    networking: on.has("networks") ? "On" : "Off",
    provider: on.has("pods") ? "pods" : "external",
    ...(on.has("single") && { project: { id: "a" } }),
    ...(on.has("writeBack") && !on.has("single") && { hub: { kubeconfig } }),
    ...(on.has("quota") && { quota: { from, kubeconfig } }),
    namespaceSelector: { matchExpressions: [{ key: token("selector"), operator: "Exists" }] },
    template: { keys: [token("templateKey")], maxSize: "1", maxTotal: "1" },
    pods: {
      capabilities: [token("capability")],
      ephemeralStorage: "1",
      added: {
        images: [token("addedImage")],
        volumes: [token("addedVolume")],
        audiences: [token("audience")],
        keys: [token("addedKey")],
        priorityClasses: [token("addedPriority")],
      },
    },
  };
}

/** Beside the file that names it, or in a folder of its own. */
function secretsOf(on: Setting): readonly MountedSecret[] {
  const place = on.has("serverConfig") ? OPERATOR_PATH : DOCUMENTS_PATH;
  const folderOf = (isBeside: boolean, folder: string) => (isBeside ? `${place}/${folder}` : `/${folder}`);
  const quota = {
    name: "quota",
    secret: token("quotaSecret"),
    folder: folderOf(on.has("quotaBeside"), token("quotaFolder")),
    keys: [token("quotaKey")],
  };
  const certificates = {
    name: "certificates",
    secret: "compute-webhook-cert",
    folder: folderOf(on.has("certificatesBeside"), token("certificateFolder")),
    keys: ["tls.crt", "tls.key", "ca.crt"],
  };
  const federation = {
    name: "federation",
    secret: token("federationSecret"),
    folder: `/${token("federationFolder")}`,
    keys: ["config"],
  };
  return [
    ...(on.has("quotaAlone") || on.has("quotaBeside") ? [quota] : []),
    ...(on.has("federation") ? [federation] : []),
    ...(on.has("certificatesAlone") || on.has("certificatesBeside") ? [certificates] : []),
  ];
}

/** Labels for all objects, and fields that the chart takes as they are. */
function withValues(object: KubeObject, on: Setting): KubeObject & { readonly rules?: unknown } {
  const { metadata = {} } = object;
  const labelled = {
    ...object,
    metadata: { ...metadata, labels: { ...metadata.labels, [token("label")]: token("labelValue") } },
  };
  const { kind, ...rest } = labelled;
  if (kind === "ServiceAccount" && on.has("accountAnnotations"))
    return {
      ...labelled,
      metadata: {
        ...labelled.metadata,
        annotations: { [token("accountAnnotation")]: token("accountAnnotationValue") },
      },
    };
  if (kind === "ClusterRole") {
    const { rules = [] } = labelled as ClusterRole;
    const isHeld = ({ resources }: PolicyRule) => resources?.includes(token("held"));
    const verbs = token("heldVerbs");
    return { ...labelled, rules: rules.map((it) => (isHeld(it) ? Object.assign({}, it, { verbs }) : it)) };
  }
  if (kind !== "Deployment") return labelled;
  const { spec } = rest as unknown as { spec: { template: { spec: { containers: [object] } } } };
  const [container] = spec.template.spec.containers;
  const pod = {
    ...spec.template.spec,
    nodeSelector: token("nodeSelector"),
    ...(on.has("affinity") && { affinity: token("affinity") }),
    containers: [{ ...container, resources: token("resources"), imagePullPolicy: token("pullPolicy") }],
  };
  return {
    ...labelled,
    spec: { ...spec, replicas: token("replicas"), template: { ...spec.template, spec: pod } },
  } as KubeObject;
}
