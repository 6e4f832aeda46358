import { describe, expect, it } from "vitest";
import { formatPlacement } from "../../api/placement.ts";
import { aTemplate, NOW_MS } from "../../deployment/testing/fixtures.ts";
import { recordAnnotations, sourceOf } from "../source.ts";
import {
  aCell,
  aHubNamespace,
  aPlacement,
  aSource,
  aWithdrawal,
  counts,
  going,
  onHub,
  signer,
} from "../testing/fixtures.ts";
import { decideFederation, type FederatorDecision, type FederatorView } from "./decide.ts";

const project = { path: "acme/web", uid: "project-uid", isSynced: true };
const unknown = { is: "unknown", because: "the hub is silent" } as const;
const none = { is: "none" } as const;
const there = <T>(value: T) => ({ is: "there", value }) as const;

function decide(view: Partial<FederatorView> = {}): FederatorDecision {
  return decideFederation({
    project,
    deployment: aSource(),
    namespace: { metadata: { name: "default", uid: "U" } },
    hubNamespace: there(aHubNamespace()),
    hubDeployment: none,
    choose: () => ({ is: "placed", isTakeover: false, placement: aPlacement(), verdicts: [] }),
    isProvenGone: false,
    isOtherAbsent: false,
    isDoubted: false,
    isConfirmed: false,
    cells: [aCell("a"), aCell("b")],
    withdrawals: [],
    nowMs: NOW_MS,
    signer,
    ...view,
  });
}

const told = ({ findings, status, patch, mark, withdraw, confirm, ...rest }: FederatorDecision): string =>
  [
    ...(confirm ? ["confirm"] : []),
    ...(mark
      ? [`mark ${mark.finalizers.length} ${Object.values(mark.annotations ?? {}).join()}`.trim()]
      : []),
    ...(rest.createNamespace ? ["namespace"] : []),
    ...(rest.create ? ["create"] : []),
    ...(patch ? [`patch ${Object.keys(patch).join()}`] : []),
    ...(rest.delete ? ["delete"] : []),
    ...(withdraw ?? []).map(({ cell }) => `withdraw ${cell}`),
    ...(status ? ["status"] : []),
    ...findings.map(({ reason }) => reason),
  ].join(", ");

describe("2.9 a deployment of a project", () => {
  const { metadata: present, ...rest } = onHub();
  const later = { ...present?.annotations, "compute.datumapis.com/source-generation": "2" };
  const ahead = { ...rest, metadata: { ...present, annotations: later } };
  const away = () => ({ is: "none", reason: "CellsNotRead", message: "b is silent", verdicts: [] }) as const;

  it.each<[string, Partial<FederatorView>, string]>([
    [
      "is marked before anything is written to the hub",
      { deployment: aSource({ metadata: { finalizers: [], annotations: {} } }) },
      "mark 1 ns-U",
    ],
    [
      "has its mark corrected",
      {
        deployment: aSource({
          metadata: { annotations: { "compute.datumapis.com/federation-namespace": "ns-other" } },
        }),
      },
      "mark 1 ns-U",
    ],
    ["is created on the hub", {}, "create"],
    ["brings its namespace", { hubNamespace: none }, "namespace, create"],
    ["waits for the hub", { hubNamespace: unknown, hubDeployment: unknown }, ""],
    [
      "H22 writes nothing into the namespace of another project",
      { hubNamespace: there(aHubNamespace({ "meta.datumapis.com/upstream-cluster-name": "cluster-shop" })) },
      "NamespaceConflict",
    ],
    [
      "H22 writes nothing into that of another namespace",
      { hubNamespace: there(aHubNamespace({ "meta.datumapis.com/upstream-namespace": "shop" })) },
      "NamespaceConflict",
    ],
    [
      "H22 writes nothing into one without labels",
      { hubNamespace: there({ metadata: { name: "ns-U" } }) },
      "NamespaceConflict",
    ],
    [
      "10.9 takes one whose label leaves the organisation out",
      { hubNamespace: there(aHubNamespace({ "meta.datumapis.com/upstream-cluster-name": "cluster-web" })) },
      "create",
    ],
    [
      "writes nothing into that of a project that was replaced",
      { hubNamespace: there(aHubNamespace({}, "older")) },
      "ProjectReplaced",
    ],
    [
      "waits for a namespace that ends",
      { hubNamespace: there({ metadata: { ...aHubNamespace().metadata, ...going } }) },
      "NamespaceEnding",
    ],
    ["is left alone once it is there", { hubDeployment: there(onHub()) }, ""],
    [
      "has its spec brought to the hub",
      { hubDeployment: there(onHub({ template: aTemplate("app:0") })) },
      "patch spec",
    ],
    [
      "has its generation brought to the hub",
      { hubDeployment: there(onHub()), deployment: aSource({ metadata: { generation: 2 } }) },
      "patch metadata",
    ],
    [
      "is read uncached before the hub goes back to an older generation",
      { hubDeployment: there(ahead) },
      "confirm",
    ],
    [
      "is read uncached before a cell goes back to an older generation",
      { hubDeployment: there(onHub()), isDoubted: true },
      "confirm",
    ],
    [
      "goes back on the hub when its project was restored",
      { hubDeployment: there(ahead), isConfirmed: true },
      "patch metadata",
    ],
    [
      "deletes an older one of its name, and waits",
      { hubDeployment: there(onHub({ source: "older" })), isOtherAbsent: true },
      "delete",
    ],
    [
      "waits for a proof that another one of its name is older, and not younger",
      { hubDeployment: there(onHub({ source: "other" })) },
      "",
    ],
    [
      "waits for an older one that is being deleted",
      { hubDeployment: there(onHub({ source: "older", metadata: going })) },
      "",
    ],
    [
      "leaves one of no source alone",
      { hubDeployment: there(onHub({ metadata: { annotations: {} } })) },
      "NameTaken",
    ],
    [
      "H25 in a namespace of the hub is none of a project",
      { namespace: { metadata: { uid: "U", labels: aHubNamespace().metadata?.labels ?? {} } } },
      "",
    ],
    [
      "of mode single stays local",
      { deployment: aSource({ metadata: { finalizers: ["compute.datumapis.com/workload-controller"] } }) },
      "StillLocal",
    ],
    [
      "that ran before says at once why it is not placed",
      { choose: away, deployment: aSource({ status: counts(2, { observedGeneration: 1 }) }) },
      "status, CellsNotRead",
    ],
    [
      "that is new says so after a minute",
      { choose: away, deployment: aSource({ metadata: { creationTimestamp: "2025-12-31T23:59:01Z" } }) },
      "CellsNotRead",
    ],
    [
      "that is older says so",
      { choose: away, deployment: aSource({ metadata: { creationTimestamp: "2025-12-31T23:59:00Z" } }) },
      "status, CellsNotRead",
    ],
    ["R1 shows the status of the hub", { hubDeployment: there(onHub({ status: counts(1) })) }, "status"],
    [
      "8.8 marks what it shows when the hub is silent",
      { hubDeployment: unknown, hubSinceMs: NOW_MS - 60_000, deployment: aSource({ status: counts(1) }) },
      "status",
    ],
  ])("%s", (_, view, expected) => expect(told(decide(view))).toBe(expected));

  it("8.9 is on the hub with labels and annotations that are made, and none that are copied", () => {
    const { create } = decide({
      deployment: aSource({ metadata: { labels: { theirs: "x" }, generation: 3 } }),
    });
    expect(create?.metadata).toEqual({
      name: "w-us-dfw",
      namespace: "ns-U",
      labels: {
        "topology.datum.net/city-code": "DFW",
        "meta.datumapis.com/upstream-namespace": "default",
        "compute.datumapis.com/workload-uid": "uid-w",
        "berth.dev/cell": "a",
      },
      annotations: {
        "berth.dev/source-uid": "source-uid",
        "compute.datumapis.com/source-generation": "3",
        "berth.dev/placement": '{"v":1,"cell":"a","uid":"uid-a","epoch":1,"start":0,"last":1}',
      },
      finalizers: ["berth.dev/direct"],
    });
  });

  it("A1 has a namespace with the path of its project", () => {
    expect(decide({ hubNamespace: none }).createNamespace?.metadata).toEqual({
      name: "ns-U",
      labels: aHubNamespace().metadata?.labels,
      annotations: { "berth.dev/project-uid": "project-uid" },
    });
  });

  it("H16 has its placement recorded while another program deletes it on the hub, whatever its namespace is", () => {
    const ending = there({ metadata: { ...aHubNamespace().metadata, ...going } });
    const view = { hubNamespace: ending, hubDeployment: there(onHub({ metadata: going })) };
    const placement = formatPlacement(aPlacement());
    expect(told(decide(view))).toMatch(`mark 1 ${placement},v1-`);
    const place = { "compute.datumapis.com/federation-namespace": "ns-U" };
    const recorded = (signature: object) =>
      told(
        decide({
          ...view,
          deployment: aSource({
            metadata: {
              annotations: { ...recordAnnotations(aSource(), placement, signer), ...place, ...signature },
            },
          }),
        }),
      );
    expect(recorded({})).toBe("");
    expect(recorded({ "berth.dev/signature": "v1-forged" })).toMatch("mark 1");
  });

  it("keeps its numbers while no cell is known for it", () => {
    const status = counts(2, { observedGeneration: 1 });
    expect(decide({ choose: away, deployment: aSource({ status }) }).status).toMatchObject({
      readyReplicas: 2,
      conditions: [{ type: "Placed", status: "False", reason: "CellsNotRead", message: "b is silent" }],
    });
  });
});

describe("2.9 a deployment that Karmada carries", () => {
  const carried = { own: { Placed: undefined, Stale: undefined }, isBehind: false };
  const karmada = { carried, isBound: false, push: undefined };
  const { metadata: marked, ...rest } = onHub();
  const ofOriginal = { ...rest, metadata: { ...marked, annotations: {}, finalizers: [] } };
  const unmarked = { metadata: { ...aHubNamespace().metadata, annotations: {} } };

  it.each<[string, Partial<FederatorView>, string]>([
    ["is created on the hub, and asks for no cell", { choose: () => expect.unreachable() }, "create"],
    ["is created in a namespace of the original", { hubNamespace: there(unmarked) }, "create"],
    ["T1 is that of the original", { hubDeployment: there(ofOriginal) }, "patch metadata"],
    [
      "T1 is not that of another Workload",
      {
        hubDeployment: there(ofOriginal),
        deployment: aSource({ workload: { name: "w", uid: "newer" } }),
      },
      "NameTaken",
    ],
    [
      "is pushed again",
      { hubDeployment: there(onHub()), karmada: { ...karmada, push: "2026-01-01T00:00:00Z" } },
      "patch metadata",
    ],
    ["is left alone", { hubDeployment: there(onHub()) }, ""],
    [
      "is deleted on the hub",
      { deployment: aSource({ metadata: going }), hubDeployment: there(onHub()) },
      "delete",
    ],
    [
      "A20 waits for its binding",
      { deployment: aSource({ metadata: going }), karmada: { ...karmada, isBound: true } },
      "",
    ],
    [
      "A20 is let go without it, and without Withdrawals",
      { deployment: aSource({ metadata: going }) },
      "mark 0",
    ],
  ])("%s", (_, view, expected) => expect(told(decide({ karmada, ...view }))).toBe(expected));

  it("has no placement and no finalizer on the hub: its cell would act by them", () => {
    const { metadata } = decide({ karmada }).create ?? {};
    expect(metadata?.finalizers).toBeUndefined();
    expect(metadata?.annotations).toEqual({
      "berth.dev/source-uid": "source-uid",
      "compute.datumapis.com/source-generation": "1",
    });
    expect(metadata?.labels).not.toHaveProperty("berth.dev/cell");
  });

  it("keeps Available while Instances may run on without a cell", () => {
    const verdict = { status: "False", reason: "NoMatchingLocation", message: "none" } as const;
    const own = { Available: verdict, Placed: verdict };
    const conditionsWith = (status: ReturnType<typeof counts> | undefined) =>
      decide({
        hubDeployment: there(onHub()),
        karmada: { ...karmada, carried: { ...carried, own } },
        deployment: aSource(status && { status }),
      }).status?.conditions?.map(({ type }) => type);
    expect(conditionsWith(undefined)).toEqual(["Available", "Placed"]);
    expect(conditionsWith(counts(1))).toEqual(["Placed"]);
  });
});

describe("2.9 a deployment that is being deleted", () => {
  const deployment = aSource({ metadata: going });
  const all = [aWithdrawal("a"), aWithdrawal("b")];

  it.each<[string, Partial<FederatorView>, string]>([
    ["is deleted on the hub", { hubDeployment: there(onHub()) }, "delete"],
    ["waits for the hub's one", { hubDeployment: there(onHub({ metadata: going })) }, ""],
    ["H15 waits while the hub does not answer", { hubDeployment: unknown }, ""],
    ["H15 is let go without the namespace of the hub", { hubNamespace: none, isProvenGone: true }, "mark 0"],
    ["is let go with a proof", { isProvenGone: true }, "mark 0"],
    [
      "leaves an older one of its name on the hub alone",
      { hubDeployment: there(onHub({ source: "older" })), isProvenGone: true },
      "mark 0",
    ],
    [
      "is withdrawn from the namespace that is its own, whatever a user wrote",
      {
        deployment: aSource({
          metadata: { ...going, annotations: { "compute.datumapis.com/federation-namespace": "ns-victim" } },
        }),
      },
      "mark 1 ns-U",
    ],
    ["is withdrawn from all cells of its city without a proof", {}, "withdraw a, withdraw b"],
    ["is let go when Withdrawals stand for it", { withdrawals: all }, "mark 0"],
    [
      "is withdrawn from no cell that was given up, or of another city",
      { cells: [aCell("a", { spec: { forgotten: true } }), aCell("b", { spec: { city: "ORD" } })] },
      "mark 0",
    ],
    [
      "is let go when nothing was ever written to the hub",
      { deployment: aSource({ metadata: { ...going, annotations: {} } }) },
      "mark 0",
    ],
    [
      "is not looked at any more after that",
      { deployment: aSource({ metadata: { ...going, finalizers: ["other"] } }) },
      "",
    ],
  ])("%s", (_, view, expected) => expect(told(decide({ deployment, ...view }))).toBe(expected));
});

describe("whether a project wants a deployment", () => {
  it.each([
    ["live", {}],
    ["deleting", { deployment: aSource({ metadata: going }) }],
    ["gone", { deployment: undefined, isAbsenceProven: true }],
    ["gone", { deployment: aSource({ metadata: { uid: "newer" } }), isAbsenceProven: true }],
    ["unknown", { deployment: undefined }],
    ["unknown", { deployment: aSource({ metadata: { uid: "older" } }) }],
    ["unknown", { deployment: undefined, isAbsenceProven: true, isOfNamespace: false }],
    ["unknown", { project: undefined }],
    ["unknown", { project: { ...project, isSynced: false } }],
    ["unknown", { project: { ...project, uid: "replaced" }, deployment: undefined }],
    ["live", { projectUid: undefined }],
    ["unknown", { projectUid: undefined, isOfNamespace: false }],
  ])("is %s with %j", (expected, view) => {
    const seen = {
      sourceUid: "source-uid",
      projectUid: "project-uid",
      project,
      isOfNamespace: true,
      deployment: aSource(),
      isAbsenceProven: false,
    };
    expect(sourceOf({ ...seen, ...view })).toBe(expected);
  });
});
