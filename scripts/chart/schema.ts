/** The schema of the chart's values. helm refuses an install whose values do not fit, and names the path. */
import * as z from "zod";

const texts = z.record(z.string(), z.string());
const item = z.looseObject({});
const named = z.looseObject({ name: z.string().min(1) });
const objectName = z.string().regex(/^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$/);
const quantities = z.record(z.string(), z.union([z.string(), z.number()]));
/** Regular expressions of Go cannot say what a text is not. */
const notOurs = (...names: readonly string[]) =>
  z
    .string()
    .min(1)
    .meta({ not: { enum: names } });
/** Without the labels by which the Deployment and its Services select pods. */
const labels = texts.meta({
  properties: { "app.kubernetes.io/name": { not: {} }, "app.kubernetes.io/instance": { not: {} } },
});
/** By path. helm names the place of a pattern of properties, and not that of a pattern of their names. */
const filesLike = (pattern: string, ...others: readonly string[]) =>
  texts.meta({
    patternProperties: { [pattern]: { type: "string" } },
    ...(others.length > 0 && { properties: Object.fromEntries(others.map((it) => [it, { not: {} }])) }),
    additionalProperties: false,
  });

/** What the chart of k8s-auto-labeller has, and this one does not. */
const meaningless = {
  nameOverride: z.string(),
  fullnameOverride: z.string(),
  podSecurityContext: item,
  securityContext: item,
  ingress: item,
  autoscaling: item,
};

const values = z
  .strictObject({
    image: z.strictObject({
      repository: z.string().regex(/^[a-z0-9][a-z0-9._:/-]*$/),
      tag: z.string().regex(/^[\w][\w.-]{0,127}$|^$/),
      digest: z.string().regex(/^(sha256:[0-9a-f]{64})?$/),
      pullPolicy: z.enum(["Always", "IfNotPresent", "Never"]),
    }),
    imagePullSecrets: z.array(named),
    // Names of the installation's objects have up to 20 characters more.
    installation: z.string().regex(/^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/),
    replicaCount: z.int().min(1).max(99),
    capabilities: z.strictObject(
      Object.fromEntries(
        ["labels", "gates", "architecture", "footprint", "deschedule"].map((it) => [it, z.boolean()]),
      ),
    ),
    pullSecrets: z.boolean(),
    workerPools: z.boolean(),
    confinement: z.boolean(),
    apiServerCidrs: z.array(z.string().regex(/^[0-9a-fA-F.:]+\/\d{1,3}$/)),
    // A ConfigMap has no key for other characters.
    labelFiles: filesLike("^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)?$"),
    defaultLabelFiles: z.boolean(),
    labelFormat: z.enum(["plain", "extended"]),
    allowReserved: z.array(z.string().regex(/^([a-z0-9.-]+\.)?k(ubernete|8)s\.io(\/[A-Za-z0-9._-]{1,63})?$/)),
    documents: z.array(
      z.looseObject({
        apiVersion: z.literal("berth.dev/v1alpha1"),
        kind: z.string().min(1),
        metadata: z.looseObject({ name: z.string().min(1) }),
        spec: item.optional(),
      }),
    ),
    // The documents have that name, and the rights of others are not known.
    files: filesLike("^[A-Za-z0-9][A-Za-z0-9_.-]*[.](pem|crt|ya?ml)$", "documents.yaml"),
    fleet: z.union([z.strictObject({}), z.looseObject({ mode: z.enum(["single", "cell", "management"]) })]),
    quotaSecret: objectName.min(1),
    federationSecret: objectName.min(1),
    serverConfig: z.union([z.strictObject({}), z.looseObject({ kind: z.literal("WorkloadOperator") })]),
    enableCellControllers: z.boolean(),
    featureGates: z.string().regex(/^([A-Za-z]+=[A-Za-z0-9]+(,[A-Za-z]+=[A-Za-z0-9]+)*)?$/),
    project: z.string().regex(/^[a-z0-9-]{0,63}$/),
    runtimeClasses: z.strictObject({
      architectures: z.array(z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,55}[a-z0-9])?$/)),
      handler: z.string().min(1),
      taintKeys: z.array(z.string().min(1)),
    }),
    crds: z.strictObject({
      install: z.boolean(),
      takeOver: z.boolean(),
      workerPools: z.boolean(),
      fleet: z.boolean(),
    }),
    serviceAccount: z.strictObject({ create: z.boolean(), name: objectName, annotations: texts }),
    labels: labels,
    podLabels: labels,
    podAnnotations: texts,
    nodeSelector: texts,
    tolerations: z.array(item),
    affinity: item,
    priorityClassName: z.string().min(1),
    resources: z.strictObject({ requests: quantities.optional(), limits: quantities.optional() }),
    env: z.array(named.extend({ name: notOurs("POD_NAME", "POD_UID") })),
    volumes: z.array(
      named.extend({ name: notOurs("labels", "config", "operator", "quota", "federation", "certificates") }),
    ),
    volumeMounts: z.array(named.extend({ mountPath: z.string().regex(/^\//) })),
    cleanup: z.strictObject({ enabled: z.boolean(), timeoutSeconds: z.int().min(10).max(3600) }),
    monitoring: z.strictObject({
      rules: z.boolean(),
      podMonitor: z.boolean(),
      serviceMonitor: z.boolean(),
      dashboard: z.boolean(),
      labels: texts,
    }),
    global: item,
    ...meaningless,
  })
  .partial();

export const schemaText: string = `${JSON.stringify(z.toJSONSchema(values), undefined, 2)}\n`;
