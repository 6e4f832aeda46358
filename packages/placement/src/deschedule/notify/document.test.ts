import { formatFault, readDocuments } from "@berth/host";
import { describe, expect, it } from "vitest";
import { nodeNotifierKind } from "./document.ts";
import { notifierPermissions } from "./permissions.ts";

const list = { apiVersion: "berth.dev/v1alpha1", kinds: [nodeNotifierKind] };
const read = (spec: object) => {
  const document = { apiVersion: list.apiVersion, kind: "NodeNotifier", metadata: { name: "a" }, spec };
  return readDocuments("a.yaml", JSON.stringify(document), list);
};

const URL_A = "https://inventory.example/nodes?token=x";
const post = { url: URL_A };
const job = { namespace: "ops", cronJob: "refresh" };
const keys = ["example.com/*"];

it("has defaults", () => {
  const { documents, faults } = read({ keys, post });
  expect(faults).toEqual([]);
  expect(documents[0]?.spec).toEqual({
    nodeSelector: {},
    keys,
    post: { url: URL_A, timeout: "10s" },
    retries: 5,
  });
});

describe("is refused", () => {
  it.each<[string, object, string]>([
    ["without keys", { post }, "keys: is required"],
    ["with no key", { keys: [], post }, "keys: too small: expected array to have >=1 items"],
    [
      "with every key",
      { keys: ["*"], post },
      "keys.0: must be a key such as example.com/gpu, or example.com/*",
    ],
    [
      "with no domain",
      { keys: ["/*"], post },
      "keys.0: must be a key such as example.com/gpu, or example.com/*",
    ],
    [
      "with noise",
      { keys: ["volumes.kubernetes.io/*"], post },
      "keys.0: the kubelet, storage or the network changes keys of volumes.kubernetes.io all the time: name each key",
    ],
    ["without a receiver", { keys }, "spec: must have either post or job"],
    ["with two receivers", { keys, post, job }, "spec: must have either post or job"],
    [
      "with a file",
      { keys, post: { url: "file:///etc/passwd" } },
      "post.url: must be an address that begins with http:// or https://",
    ],
    [
      "with a user",
      { keys, post: { url: "https://user@inventory.example" } },
      "post.url: must not contain a user or a password",
    ],
    [
      "with a password",
      { keys, post: { url: "https://:secret@inventory.example" } },
      "post.url: must not contain a user or a password",
    ],
    [
      "with no time",
      { keys, post: { ...post, timeout: "0s" } },
      "post.timeout: must be above 0 and at most 30s",
    ],
    [
      "with much time",
      { keys, post: { ...post, timeout: "1m" } },
      "post.timeout: must be above 0 and at most 30s",
    ],
    [
      "with a bad selector",
      { keys, post, nodeSelector: { matchLabels: { "-": "x" } } },
      "nodeSelector.matchLabels.-: no label can have this key",
    ],
    ["with a header", { keys, post: { ...post, headers: {} } }, "post.headers: there is no such field"],
  ])("%s", (_, spec, expected) => {
    const shown = read(spec).faults.map(formatFault);
    expect(shown).toHaveLength(1);
    expect(shown[0]).toContain(expected);
    expect(shown[0]).not.toContain("secret");
  });
});

it("takes noise that is named exactly", () => {
  expect(read({ keys: ["volumes.kubernetes.io/attached"], post }).faults).toEqual([]);
});

it("asks for permissions only for Jobs", () => {
  const documentsOf = (spec: object) => ({
    documentsOf: () => read(spec).documents as never,
    specOf: () => undefined,
  });
  const permissionsOf = (spec: object) =>
    notifierPermissions({ name: "berth", documents: documentsOf(spec), flags: new Set() });
  expect(permissionsOf({ keys, post })).toEqual([]);
  const unusual = "create jobs in every namespace (NodeNotifier a)";
  expect(permissionsOf({ keys, job })).toEqual([
    {
      role: "notifiers",
      rule: { apiGroups: ["batch"], resources: ["cronjobs"], resourceNames: ["refresh"], verbs: ["get"] },
      unusual,
    },
    { role: "notifiers", rule: { apiGroups: ["batch"], resources: ["jobs"], verbs: ["create"] }, unusual },
  ]);
});
