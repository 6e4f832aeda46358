/** What strangers send, as it is right. */

/** In the kubeconfigs, and never to be said. */
export const SECRET = "c2VjcmV0LXRva2Vu.VERY-SECRET";

const json = (value: unknown): string => JSON.stringify(value);

const pod = {
  metadata: { name: "p", namespace: "n", uid: "u", labels: { a: "b" } },
  spec: {
    containers: [{ name: "c", image: "docker.io/library/nginx:1" }],
    imagePullSecrets: [{ name: "s" }],
  },
};
export const reviews: readonly string[] = ["CREATE", "UPDATE", "DELETE"].map((operation) =>
  json({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: "705ab4f5-6393-11e8-b7cc-42010a800002",
      kind: { group: "", version: "v1", kind: "Pod" },
      resource: { group: "", version: "v1", resource: "pods" },
      name: "p",
      namespace: "n",
      operation,
      userInfo: { username: "u", groups: ["g"], uid: "1", extra: { k: ["v"] } },
      object: pod,
      oldObject: operation === "CREATE" ? null : pod,
      dryRun: false,
    },
  }),
);

const digest = `sha256:${"0".repeat(64)}`;
const platform = { architecture: "arm64", os: "linux", variant: "v8" };
/** The media type of an index. */
export const INDEX = "application/vnd.oci.image.index.v1+json";
const IMAGE = "application/vnd.oci.image.manifest.v1+json";
const CONFIG = "application/vnd.oci.image.config.v1+json";
export const manifests: readonly string[] = [
  json({
    schemaVersion: 2,
    mediaType: INDEX,
    manifests: [{ mediaType: IMAGE, digest, size: 7, platform }],
  }),
  json({ schemaVersion: 2, mediaType: IMAGE, config: { mediaType: CONFIG, digest, size: 7 }, layers: [] }),
];
export const configs: readonly string[] = [
  json({ ...platform, config: { Labels: { "operators.operatorframework.io.metrics.builder": "" } } }),
];
export const challenges: readonly string[] = [
  'Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull"',
  'Basic realm="a \\"quoted\\" realm", Negotiate, Bearer realm="https://x/",error="invalid_token"',
];

export const kubeconfigs: readonly string[] = [
  `apiVersion: v1
kind: Config
current-context: main
clusters:
- name: one
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: YQ==, extensions: [{name: x, extension: {a: 1}}]}
contexts:
- name: main
  context: {cluster: one, user: me, namespace: n}
users:
- name: me
  user: {token: ${SECRET}}
`,
  json({
    clusters: [{ name: "one", cluster: { server: "https://a.example", "insecure-skip-tls-verify": true } }],
    contexts: [{ name: "main", context: { cluster: "one", user: "me" } }],
    users: [
      {
        name: "me",
        user: { exec: { command: "helper", args: [SECRET], env: [{ name: "T", value: SECRET }] } },
      },
    ],
    "current-context": "main",
  }),
  `{clusters: [{name: one, cluster: {server: "https://a.example"}}], current-context: main,
contexts: [{name: main, context: {cluster: one, user: me}}],
users: [{name: me, user: {client-certificate-data: YQ==, client-key-data: ${SECRET}, password: ${SECRET}, username: u}}]}`,
];

export const rules: readonly string[] = [
  `apiVersion: berth.dev/v1alpha1
kind: LabelRule
metadata: {name: gpu}
spec:
  match:
    all: [{key: pci.present, operator: In, values: ["true"]}]
  labels: [{key: gpu, value: "true"}]
  removalDelay: 5m
---
apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata: {name: cni}
spec:
  nodeSelector: {matchLabels: {pool: a}}
  signals: {pods: [{namespace: kube-system, selector: {matchLabels: {app: cni}}}]}
`,
  json({
    apiVersion: "v1",
    kind: "List",
    items: [
      {
        apiVersion: "berth.dev/v1alpha1",
        kind: "NodeFootprint",
        metadata: { name: "agent" },
        spec: {
          workloads: [{ podSelector: { matchLabels: { app: "web" } } }],
          node: { label: { key: "a.test/b" } },
        },
      },
    ],
  }),
];
