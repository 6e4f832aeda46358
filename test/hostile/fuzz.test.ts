/** Whatever strangers send: no crash, no answer that grows beyond what was sent, and no secret in it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { readDocuments } from "@berth/host";
import { ApiError, KubeconfigError, loadKubeconfig } from "@berth/kube";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { documentKinds } from "../../packages/cli/src/kinds.ts";
import { parseChallenges } from "../../packages/registry/src/challenge.ts";
import { parseImageConfig, parseManifest } from "../../packages/registry/src/manifest.ts";
import { ALLOWED, parseReview, renderReview } from "../../packages/runtime/src/admission/review.ts";
import { seededRun } from "../../packages/runtime/src/testing/property.ts";
import { mutated } from "./mutations.ts";

/** Inputs of each kind; `make perturb` takes a hundred times as many. */
const INPUTS = 1_000;
const SECRET = "c2VjcmV0LXRva2Vu.VERY-SECRET";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const json = (value: unknown): string => JSON.stringify(value);

const pod = {
  metadata: { name: "p", namespace: "n", uid: "u", labels: { a: "b" } },
  spec: {
    containers: [{ name: "c", image: "docker.io/library/nginx:1" }],
    imagePullSecrets: [{ name: "s" }],
  },
};
const reviews = ["CREATE", "UPDATE", "DELETE"].map((operation) =>
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
const INDEX = "application/vnd.oci.image.index.v1+json";
const IMAGE = "application/vnd.oci.image.manifest.v1+json";
const CONFIG = "application/vnd.oci.image.config.v1+json";
const manifests = [
  json({
    schemaVersion: 2,
    mediaType: INDEX,
    manifests: [{ mediaType: IMAGE, digest, size: 7, platform }],
  }),
  json({ schemaVersion: 2, mediaType: IMAGE, config: { mediaType: CONFIG, digest, size: 7 }, layers: [] }),
];
const configs = [
  json({ ...platform, config: { Labels: { "operators.operatorframework.io.metrics.builder": "" } } }),
];
const challenges = [
  'Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull"',
  'Basic realm="a \\"quoted\\" realm", Negotiate, Bearer realm="https://x/",error="invalid_token"',
];

const kubeconfigs = [
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

const rules = [
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

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "berth-fuzz-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** What parsing says of a text. Must be total, or throw what its documentation names. */
type Parse = (text: string) => unknown;

const targets: readonly (readonly [string, readonly string[], Parse])[] = [
  [
    "reviews",
    reviews,
    (text) => {
      const parsed = parseReview(bytes(text));
      return "review" in parsed ? JSON.parse(renderReview(parsed.review, ALLOWED)) : parsed.problem;
    },
  ],
  ["manifests", manifests, (text) => parseManifest(bytes(text), INDEX)],
  ["image configs", configs, (text) => parseImageConfig(bytes(text))],
  ["challenges", challenges, (text) => parseChallenges(text)],
  [
    "kubeconfigs",
    kubeconfigs,
    async (text) => {
      const file = path.join(folder, "config");
      await writeFile(file, text);
      return loadKubeconfig([file], { environment: {} }).then(
        () => "",
        (error: unknown) => {
          if (error instanceof KubeconfigError || error instanceof ApiError) return error.message;
          throw error;
        },
      );
    },
  ],
  ["rule files", rules, (text) => readDocuments("rules.yaml", text, documentKinds).faults],
];

describe("what strangers send", () => {
  const { parameters, options, name } = seededRun(INPUTS, process.env);

  it.each(targets)(`harms nothing: %s (${name})`, options, async (_what, valid, parse) => {
    const property = fc.asyncProperty(mutated(valid), async (text) => {
      const said = JSON.stringify(await parse(text)) ?? "";
      expect(said).not.toContain(SECRET);
      expect(said.length).toBeLessThanOrEqual(20_000 + 20 * text.length);
    });
    await fc.assert(property, parameters);
  });

  it.each(targets)("is read when it is right: %s", async (_what, valid, parse) => {
    for (const text of valid) expect(await parse(text)).toBeDefined();
  });
});
