import type { AdmissionRequest } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { askedAboutOthers, protect } from "./protect.ts";

const writers = { self: "berth", providers: { users: ["unikraft"], groups: ["providers"] } };
const users = {
  berth: { username: "berth" },
  user: { username: "alice", groups: ["system:masters"] },
  provider: { username: "unikraft" },
  member: { username: "x", groups: ["providers"] },
  collector: { username: "system:serviceaccount:kube-system:generic-garbage-collector" },
  namespaces: { username: "system:serviceaccount:kube-system:namespace-controller" },
  manager: { username: "system:kube-controller-manager" },
  unknown: undefined,
};
type User = keyof typeof users;

const object = {
  metadata: {
    name: "web-us-dfw-0",
    labels: { "compute.datumapis.com/instance-index": "0", app: "web" },
    annotations: { "berth.dev/ordinal-start": "0" },
    finalizers: ["a", "quota.compute.datumapis.com/claim-cleanup"],
    ownerReferences: [{ name: "web" }],
  },
  spec: { runtime: {} },
};
const withMetadata = (change: object): object => ({ ...object, metadata: { ...object.metadata, ...change } });

const updates = {
  spec: { ...object, spec: { runtime: { sandbox: {} } } },
  finalizers: withMetadata({ finalizers: ["b", "quota.compute.datumapis.com/claim-cleanup"] }),
  "own finalizer": withMetadata({ finalizers: ["a"] }),
  owners: withMetadata({ ownerReferences: undefined }),
  "own label": withMetadata({
    labels: { ...object.metadata.labels, "compute.datumapis.com/instance-index": "1" },
  }),
  "lost label": withMetadata({ labels: undefined }),
  "own annotation": withMetadata({ annotations: { "berth.dev/ordinal-start": "1000" } }),
  "free label": withMetadata({ labels: { ...object.metadata.labels, app: "other", "example.com/a": "b" } }),
  "free annotation": withMetadata({
    annotations: { ...object.metadata.annotations, "kubectl.kubernetes.io/a": "" },
  }),
  nothing: {
    spec: { runtime: {} },
    metadata: { ...object.metadata, managedFields: [], resourceVersion: "2" },
  },
} as const;
type Act = keyof typeof updates | "create" | "delete" | "status" | "scale";

function requestOf(user: User, act: Act, resource = "instances"): Parameters<typeof protect>[0] {
  const of = { group: "compute.datumapis.com", version: "v1alpha", resource };
  const userInfo = users[user];
  const common = { resource: of, ...(userInfo && { userInfo }) };
  if (act === "create") return { ...common, operation: "CREATE", object };
  if (act === "delete") return { ...common, operation: "DELETE", oldObject: object };
  if (act === "status" || act === "scale")
    return { ...common, operation: "UPDATE", subResource: act, object, oldObject: object };
  return { ...common, operation: "UPDATE", object: updates[act], oldObject: object };
}

const ACTS = [
  ...(Object.keys(updates) as (keyof typeof updates)[]),
  "create",
  "delete",
  "status",
  "scale",
] as const;
const FREE = ["free label", "free annotation", "nothing"] as const;
const ANY_METADATA = [
  "finalizers",
  "own finalizer",
  "owners",
  "own label",
  "lost label",
  "own annotation",
  ...FREE,
] as const;

describe("3.3 an Instance", () => {
  const cases: readonly (readonly [User, ...allowed: readonly Act[]])[] = [
    ["berth", ...ACTS],
    ["user", ...FREE],
    ["unknown", ...FREE],
    ["provider", "status", "finalizers", ...FREE],
    ["member", "status", "finalizers", ...FREE],
    ["collector", "delete", ...ANY_METADATA],
    ["namespaces", "delete", ...ANY_METADATA],
    ["manager", "delete", ...ANY_METADATA],
  ];
  for (const [user, ...allowed] of cases) {
    it(`3.3 takes these writes of ${user}: ${allowed.join(", ")}`, () => {
      const taken = ACTS.filter((act) => protect(requestOf(user, act), writers) === undefined);
      expect(taken.toSorted()).toEqual([...allowed].toSorted());
    });
  }

  it("3.3 takes no operation that is not known, and says what manages it", () => {
    const request = { ...requestOf("user", "nothing"), operation: "" } as const;
    expect(protect(request, writers)).toMatch(/^managed by compute/);
  });

  it("3.3 is not protected while Berth does not know its own name", () => {
    for (const act of ACTS)
      expect(protect(requestOf("user", act), { ...writers, self: undefined })).toBeUndefined();
  });
});

it("3.3 a deployment takes no status and no finalizers of a provider", () => {
  const taken = ACTS.filter(
    (act) => protect(requestOf("provider", act, "workloaddeployments"), writers) === undefined,
  );
  expect(taken.toSorted()).toEqual([...FREE].toSorted());
});

it("3.3 objects of any shape are compared without a failure", () => {
  for (const odd of [
    undefined,
    null,
    1,
    "a",
    [],
    { metadata: [] },
    { metadata: { labels: [1], finalizers: {} } },
  ]) {
    const request: Partial<AdmissionRequest> = { object: odd, oldObject: odd };
    expect(protect({ ...requestOf("user", "nothing"), ...request }, writers)).toBeUndefined();
  }
});

describe("the conditions of the webhook", () => {
  it("3.3 quote the names of users", () => {
    const self = 'berth"] || true || "a" in ["';
    const [known] = askedAboutOthers({ ...writers, self });
    expect(known?.expression).toContain(String.raw`in ["berth\"] || true || \"a\" in [\"", "system:`);
  });

  it("3.3 let pass what Berth, the controllers of Kubernetes and, to the status of an Instance, providers write", () => {
    const controllers =
      '"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller", "system:kube-controller-manager"';
    const isStatus =
      'request.resource.resource == "instances" && request.?subResource.orValue("") == "status" && request.operation == "UPDATE"';
    const isProvider =
      '(request.userInfo.username in ["unikraft"] || request.userInfo.?groups.orValue([]).exists(it, it in ["providers"]))';
    const provider = { name: "not-provider", expression: `!(${isStatus} && ${isProvider})` };
    const others = (self?: string) => askedAboutOthers({ ...writers, self });
    expect([others("berth"), others()]).toEqual(
      ['"berth", ', ""].map((self) => [
        { name: "not-compute", expression: `!(request.userInfo.username in [${self}${controllers}])` },
        provider,
      ]),
    );
  });
});
