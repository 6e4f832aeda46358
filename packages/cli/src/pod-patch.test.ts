import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { type PodPatch, patchPod, readPodPatch } from "./pod-patch.ts";

const root = path.join(import.meta.dirname, "../../..");

const faultsIn = (text: string): readonly string[] => {
  const read = readPodPatch("pod.yaml", text);
  return "patch" in read ? [] : read.faults.map(({ file, line, message }) => `${file}:${line}: ${message}`);
};

function patchIn(text: string): PodPatch {
  const read = readPodPatch("pod.yaml", text);
  if ("faults" in read) throw new Error(JSON.stringify(read.faults));
  return read.patch;
}

describe("I-12 a patch of the pod template", () => {
  it.each([
    ["metadata:\n  label: {a: b}\n", "pod.yaml:2: metadata.label: there is no such field"],
    [
      "metadata:\n  annotations:\n    a: true\n",
      "pod.yaml:3: metadata.annotations.a: invalid input: expected string, received boolean",
    ],
    [
      "metadata:\n  labels:\n    app.kubernetes.io/name: x\n",
      "pod.yaml:3: metadata.labels.app.kubernetes.io/name: the Deployment selects its pods by this label",
    ],
    ["spec:\n  replicas: 2\n", "pod.yaml:2: spec.replicas: there is no such field"],
    [
      "spec:\n  tolerations: x\n",
      "pod.yaml:2: spec.tolerations: invalid input: expected array, received string",
    ],
    [
      "spec:\n  containers:\n    - name: other\n",
      'pod.yaml:3: spec.containers.0.name: invalid input: expected "berth"',
    ],
    [
      "spec:\n  containers:\n    - name: berth\n      image: x\n",
      "pod.yaml:4: spec.containers.0.image: there is no such field",
    ],
    ["spec:\n  volumes:\n    - emptyDir: {}\n", "pod.yaml:3: spec.volumes.0.name: is required"],
    ["a: [\n", expect.stringMatching(/^pod.yaml:2: /)],
    ["", "pod.yaml:undefined: expected one document with metadata and spec, as in a pod template"],
    ["spec: {}\n---\nspec: {}\n", expect.stringMatching(/^pod.yaml:3: expected one document/)],
  ])("names path and line of what is wrong with %j", (text, fault) => {
    expect(faultsIn(text)).toEqual([fault]);
  });

  it("is merged by name, and lists without names as a whole", () => {
    const own = {
      tolerations: [{ operator: "Exists" }],
      nodeSelector: { "kubernetes.io/os": "linux" },
      volumes: [{ name: "labels", configMap: { name: "berth-labels" } }],
      containers: [
        {
          name: "berth",
          image: "berth:1",
          env: [{ name: "POD_NAME", value: "x" }],
          resources: { requests: { cpu: "20m", memory: "96Mi" }, limits: { memory: "512Mi" } },
          volumeMounts: [{ name: "labels", mountPath: "/labels" }],
        },
      ],
    } as const;
    const patch = patchIn(`
metadata: {labels: {app: x}, annotations: {note: text}}
spec:
  nodeSelector: {pool: system}
  tolerations: [{key: a}]
  volumes: [{name: labels, emptyDir: {}}, {name: tls, secret: {secretName: s}}]
  containers:
    - name: berth
      env: [{name: A, value: b}]
      resources: {limits: {memory: 1Gi}}
      volumeMounts: [{name: tls, mountPath: /tls}]
`);
    expect(patchPod({ own: "yes" }, own, patch)).toEqual({
      metadata: { labels: { own: "yes", app: "x" }, annotations: { note: "text" } },
      spec: {
        tolerations: [{ key: "a" }],
        nodeSelector: { "kubernetes.io/os": "linux", pool: "system" },
        volumes: [
          { name: "labels", emptyDir: {} },
          { name: "tls", secret: { secretName: "s" } },
        ],
        containers: [
          {
            name: "berth",
            image: "berth:1",
            env: [
              { name: "POD_NAME", value: "x" },
              { name: "A", value: "b" },
            ],
            resources: { requests: { cpu: "20m", memory: "96Mi" }, limits: { memory: "1Gi" } },
            volumeMounts: [
              { name: "labels", mountPath: "/labels" },
              { name: "tls", mountPath: "/tls" },
            ],
          },
        ],
      },
    });
    expect(patchPod({ own: "yes" }, own, {})).toEqual({ metadata: { labels: { own: "yes" } }, spec: own });
  });

  it("is read as the reference shows it", async () => {
    const page = await readFile(path.join(root, "docs/reference/manifests.md"), "utf8");
    const [, text = ""] = /```yaml\n([^`]*)```/.exec(page) ?? [];
    expect(Object.keys(patchIn(text).spec ?? {})).toHaveLength(8);
  });
});
