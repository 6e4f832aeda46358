import type { KubeObject } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { originOf } from "../../api/origin.ts";
import { formatPlacement, parsePlacement } from "../../api/placement.ts";
import { anInstance, aTemplate } from "../../deployment/testing/fixtures.ts";
import {
  AWAY,
  aCell,
  aFound,
  aHubNamespace,
  aPlacement,
  aWithdrawal,
  going,
  HUB,
  onHub,
  signer,
} from "../../hub/testing/fixtures.ts";
import { type CarryDecision, type CarryView, decideCarry } from "./carry.ts";

const [a, b] = [aCell("a"), aCell("b")];
const away = aCell("a", { state: AWAY });

function decide(view: Partial<CarryView> = {}): CarryDecision {
  return decideCarry({
    deployment: onHub(),
    copies: [],
    source: "live",
    wantedGeneration: 1,
    confirmedGeneration: undefined,
    recorded: undefined,
    ranBefore: false,
    cells: [a, b],
    found: [],
    foreign: new Set(),
    namespace: aHubNamespace(),
    namespaceIn: () => aHubNamespace(),
    withdrawals: [],
    proven: new Set(),
    isLatePossible: () => false,
    choose: () => ({
      is: "placed",
      isTakeover: false,
      placement: aPlacement("b", { epoch: 2, start: 1000 }),
      verdicts: [],
    }),
    move: {
      choose: (placement) => ({
        is: "placed",
        isTakeover: false,
        placement: { ...placement, next: { cell: "b", uid: "uid-b", epoch: 2, start: 1000 }, last: 2 },
        verdicts: [],
      }),
      mayBegin: () => true,
      isConfirmed: true,
      forMs: 0,
      timeoutMs: 600_000,
      restsForMs: 0,
      isUnconfirmed: false,
    },
    hub: HUB,
    signer,
    ...view,
  });
}

const ofGeneration = (generation: string) => ({
  annotations: { "compute.datumapis.com/source-generation": generation },
});

/** The decision in a few words. */
function told({ findings, place, patch, create, release, ...rest }: CarryDecision): string {
  const parts = [
    ...(place
      ? [`place ${place.placement.cell}/${place.placement.epoch}/${place.placement.start} ${place.reason}`]
      : []),
    ...(create ? [`create ${create.cellUid}`] : []),
    ...(patch ?? []).map(
      ({ found, body }) => `patch ${found.cell.cell.metadata?.name} ${Object.keys(body).join()}`,
    ),
    ...(rest.delete ?? []).map(({ cell }) => `delete ${cell.cell.metadata?.name}`),
    ...(rest.confirmSource ? ["confirm the source"] : []),
    ...(rest.prove ?? []).map(({ cell }) => `prove ${cell.metadata?.name}`),
    ...(rest.withdraw ?? []).map(({ cell, epoch, start }) => `withdraw ${cell} ${epoch} ${start}`),
    ...(rest.deleteCopies ? [`copies ${rest.deleteCopies.length}`] : []),
    ...(release ? [`release${release.isProven ? " proven" : ""}`] : []),
    ...findings.map(({ reason }) => reason),
  ];
  return parts.join(", ");
}

describe("a deployment that the project wants", () => {
  it.each<[string, Partial<CarryView>, string]>([
    ["is created in its cell", {}, "create uid-a"],
    ["is not created in a cell that is away", { cells: [away, b] }, ""],
    ["is not created in a cell that no Cell stands for", { cells: [b] }, ""],
    ["is left alone when the cell has it", { found: [aFound(a)] }, ""],
    ["8.8 stays where it is while its cell is away", { cells: [away, b], ranBefore: true }, ""],
    [
      "is not made again before all cells of the city are read",
      { cells: [a, aCell("b", { state: AWAY })], ranBefore: true },
      "CellsNotRead",
    ],
    [
      "is made again when only a cell of another city is not read",
      { cells: [a, aCell("b", { state: AWAY, spec: { city: "ORD" } })], ranBefore: true },
      "create uid-a",
    ],
    [
      "is created beside an unread cell when it never ran",
      { cells: [a, aCell("b", { state: AWAY })] },
      "create uid-a",
    ],
    [
      "2.12 follows a later placement in another cell",
      { found: [aFound(b, { epoch: 3, start: 1000 })] },
      "place b/3/1000 TakenOver",
    ],
    [
      "follows a later placement, though its own cell has it",
      { found: [aFound(a), aFound(b, { epoch: 3 })] },
      "place b/3/0 TakenOver",
    ],
    [
      "follows a later placement in its own cell",
      { found: [aFound(a, { epoch: 3, start: 1000 })] },
      "place a/3/1000 TakenOver",
    ],
    ["follows the start of its cell", { found: [aFound(a, { start: 1000 })] }, "place a/1/1000 TakenOver"],
    [
      "follows an equal epoch elsewhere when its own cell has nothing",
      { found: [aFound(b)] },
      "place b/1/0 TakenOver",
    ],
    [
      "keeps an equal epoch when its own cell is away, and holds the other",
      { cells: [away, b], found: [aFound(b)] },
      "patch b metadata",
    ],
    [
      "holds an older placement elsewhere",
      {
        deployment: onHub({ placed: aPlacement("a", { epoch: 2 }) }),
        found: [aFound(a, { epoch: 2 }), aFound(b)],
      },
      "patch b metadata",
    ],
    [
      "holds it once",
      { found: [aFound(a), aFound(b, { metadata: { annotations: { "berth.dev/hold": "Superseded" } } })] },
      "",
    ],
    [
      "waits for an earlier deployment of its name",
      { found: [aFound(a, { source: "older" })] },
      "Withdrawing",
    ],
    ["waits for one that is being deleted", { found: [aFound(a, { metadata: going })] }, "Withdrawing"],
    ["waits for a foreign deployment of its name", { foreign: new Set(["uid-a"]) }, "NameTaken"],
    [
      "T3 leaves what two cells have under its name, and changes neither",
      { foreign: new Set(["uid-a", "uid-b"]) },
      "AmbiguousCell",
    ],
    ["is not created while it is withdrawn", { withdrawals: [aWithdrawal("a")] }, "Withdrawing"],
    [
      "is created while an earlier epoch is withdrawn",
      { deployment: onHub({ placed: aPlacement("a", { epoch: 2 }) }), withdrawals: [aWithdrawal("a")] },
      "create uid-a",
    ],
    [
      "goes elsewhere when its cell was given up",
      { cells: [aCell("a", { spec: { forgotten: true } }), b] },
      "place b/2/1000 CellForgotten",
    ],
    [
      "is placed when its placement cannot be read",
      { deployment: onHub({ metadata: { annotations: { "berth.dev/source-uid": "source-uid" } } }) },
      "place b/2/1000 CellForgotten",
    ],
    [
      "H22 is not created in a namespace of another project",
      { namespaceIn: () => aHubNamespace({ "meta.datumapis.com/upstream-cluster-name": "cluster-shop" }) },
      "NamespaceConflict",
    ],
    [
      "has its spec brought to the cell",
      { found: [aFound(a, { template: aTemplate("app:0") })] },
      "patch a spec",
    ],
    [
      "has its generation brought to the cell",
      {
        found: [aFound(a, { metadata: ofGeneration("0") })],
      },
      "patch a metadata",
    ],
    [
      "keeps what is newer in the cell while the hub is behind its project",
      {
        wantedGeneration: 3,
        found: [aFound(a, { template: aTemplate("app:0"), metadata: ofGeneration("2") })],
      },
      "",
    ],
    [
      "keeps what is newer in the cell while the project is not known",
      { source: "unknown", wantedGeneration: undefined, found: [aFound(a, { metadata: ofGeneration("2") })] },
      "",
    ],
    [
      "keeps what is newer in the cell until an uncached read shows that the project wants what is older",
      { found: [aFound(a, { template: aTemplate("app:0"), metadata: ofGeneration("2") })] },
      "confirm the source",
    ],
    [
      "has what the project wants again brought to the cell, though it is older",
      {
        confirmedGeneration: 1,
        found: [aFound(a, { template: aTemplate("app:0"), metadata: ofGeneration("2") })],
      },
      "patch a metadata,spec",
    ],
    [
      "keeps what is newer in the cell though the project wanted what is older once",
      {
        confirmedGeneration: 1,
        wantedGeneration: 3,
        found: [aFound(a, { template: aTemplate("app:0"), metadata: ofGeneration("2") })],
      },
      "",
    ],
    [
      "is set free when it is current again",
      { found: [aFound(a, { metadata: { annotations: { "berth.dev/hold": "Superseded" } } })] },
      "patch a metadata",
    ],
  ])("%s", (_, view, expected) => expect(told(decide(view))).toBe(expected));

  it("8.9 is created with its origin signed, its start, and nothing of the hub's metadata", () => {
    const { create } = decide({ deployment: onHub({ placed: aPlacement("a", { epoch: 2, start: 1000 }) }) });
    const { metadata, spec } = create?.deployment ?? {};
    expect(originOf(create?.deployment ?? {}, "uid-a", signer)).toMatchObject({
      is: "signed",
      origin: { hub: HUB, sourceUid: "source-uid", epoch: 2, start: 1000 },
    });
    expect(metadata).toMatchObject({
      name: "w-us-dfw",
      namespace: "ns-U",
      labels: { "topology.datum.net/city-code": "DFW", "meta.datumapis.com/upstream-namespace": "default" },
      annotations: { "compute.datumapis.com/source-generation": "1", "berth.dev/ordinal-start": "1000" },
    });
    expect(Object.keys(metadata ?? {}).sort()).toEqual(["annotations", "labels", "name", "namespace"]);
    expect(spec).toEqual(onHub().spec);
  });

  it("is adopted with its origin signed anew, and keeps its start and its Workload", () => {
    const orphan = aFound(a, { source: "lost", start: 1000, workload: { name: "w", uid: "uid-lost" } });
    const found = [{ ...orphan, origin: { ...orphan.origin, sourceUid: "source-uid" } }];
    const deployment = onHub({ placed: aPlacement("a", { start: 1000 }) });
    const [patch] = decide({ deployment, found }).patch ?? [];
    const { metadata, ...rest } = (patch?.body ?? {}) as KubeObject;
    const merged = { ...orphan.deployment.metadata?.annotations, ...metadata?.annotations };
    expect([
      originOf({ metadata: { ...deployment.metadata, annotations: merged } }, "uid-a", signer),
      rest,
    ]).toEqual([{ is: "signed", origin: { hub: HUB, sourceUid: "source-uid", epoch: 1, start: 1000 } }, {}]);
  });

  it("10.10 brings its namespace with both labels", () => {
    const { create } = decide({ namespaceIn: () => undefined });
    expect(create?.namespace?.metadata).toEqual({
      name: "ns-U",
      labels: aHubNamespace().metadata?.labels,
      annotations: {},
    });
  });

  it("keeps the other fields of its placement when a cell is taken over", () => {
    const deployment = onHub({ placed: aPlacement("a", { last: 7, lost: [3000] }) });
    const { place } = decide({ deployment, found: [aFound(b, { epoch: 8, start: 1000 })] });
    expect(parsePlacement(formatPlacement(place?.placement ?? aPlacement()))).toMatchObject({
      cell: "b",
      last: 8,
      lost: [3000],
    });
  });
});

describe("a deployment that moves", () => {
  const drained = aCell("a", { spec: { drain: true } });
  const next = { cell: "b", uid: "uid-b", epoch: 2, start: 1000 };
  const moving = onHub({ placed: aPlacement("a", { last: 2, next }) });
  const { epoch, start, uid } = aPlacement();
  const moved = onHub({
    placed: aPlacement("b", { ...next, last: 2, leaving: { cell: "a", uid, epoch, start } }),
  });
  const [inA, inB] = [aFound(drained), aFound(b, { epoch: 2, start: 1000 })];
  const proven = new Set(["uid-a"]);

  it.each<[string, Partial<CarryView>, string]>([
    ["begins when its cell is drained", { deployment: onHub(), found: [inA] }, "place a/1/0 Moving"],
    ["is created in the next cell", { deployment: moving, found: [inA] }, "create uid-b"],
    [
      "is created there although another cell is not read",
      { deployment: moving, found: [inA], ranBefore: true, cells: [drained, b, aCell("c", { state: AWAY })] },
      "create uid-b",
    ],
    ["is not taken over by the next cell", { deployment: moving, found: [inA, inB] }, ""],
    [
      "is not made again in its own cell, as the hub may be from a backup",
      { deployment: moving, found: [inB], ranBefore: true },
      "",
    ],
    [
      "brings another template to the next cell alone",
      {
        deployment: moving,
        found: [
          aFound(drained, { template: aTemplate("app:0") }),
          aFound(b, { epoch: 2, start: 1000, template: aTemplate("app:0") }),
        ],
      },
      "patch b spec",
    ],
    [
      "brings more replicas to both",
      {
        deployment: moving,
        found: [aFound(drained, { min: 1 }), aFound(b, { epoch: 2, start: 1000, min: 1 })],
      },
      "patch a spec, patch b spec",
    ],
    [
      "keeps more replicas in its own cell",
      {
        deployment: moving,
        found: [aFound(drained, { min: 3 }), aFound(b, { epoch: 2, start: 1000, min: 3 })],
      },
      "patch b spec",
    ],
    ["is deleted from the cell that it leaves", { deployment: moved, found: [inA, inB] }, "delete a"],
    [
      "is not deleted while nothing is known of the project",
      { deployment: moved, found: [inA, inB], source: "unknown" },
      "",
    ],
    ["is waited for there", { deployment: moved, found: [aFound(drained, { metadata: going }), inB] }, ""],
    ["is proven gone there", { deployment: moved, found: [inB] }, "prove a"],
    [
      "may still arrive there",
      { deployment: moved, found: [inB], proven, isLatePossible: (of) => of === "uid-a" },
      "",
    ],
    ["has left it with a proof", { deployment: moved, found: [inB], proven }, "place b/2/1000 Left"],
    [
      "goes on when a hub from a backup does not know of it",
      { deployment: onHub(), found: [inA, inB] },
      "place a/1/0 TakenOver",
    ],
    [
      "is placed by the next cell when its own was given up",
      { deployment: moving, cells: [aCell("a", { spec: { forgotten: true } }), b], found: [inB] },
      "place b/2/1000 CellForgotten",
    ],
  ])("%s", (_, view, expected) => expect(told(decide({ cells: [drained, b], ...view }))).toBe(expected));
});

describe("a deployment of the hub that is being deleted", () => {
  const deployment = onHub({ metadata: going });
  const proven = new Set(["uid-a"]);
  const copy = anInstance(onHub(), 0);

  it.each<[string, Partial<CarryView>, string]>([
    [
      "is let go when the project still wants it and has its placement, and the cell keeps it",
      { source: "live", recorded: formatPlacement(aPlacement()), found: [aFound(a)] },
      "release",
    ],
    ["waits until its placement is recorded in a project that wants it", { source: "live" }, ""],
    ["waits while nothing is known of the project", { source: "unknown", found: [aFound(a)], proven }, ""],
    ["is deleted in its cell", { found: [aFound(a)] }, "delete a"],
    ["is deleted in all cells that have it", { found: [aFound(a), aFound(b)] }, "delete a, delete b"],
    ["waits for the cell", { found: [aFound(a, { metadata: going })], proven }, ""],
    ["leaves an older source of the name alone", { found: [aFound(a, { source: "older" })] }, "prove a"],
    ["needs a proof", {}, "prove a"],
    ["is let go with a proof", { proven }, "release proven"],
    ["A20 is withdrawn from a cell that is away", { cells: [away, b] }, "withdraw a 1 0"],
    ["is withdrawn from a cell that no Cell stands for", { cells: [b] }, "withdraw a 1 0"],
    [
      "is let go when a Withdrawal stands for it",
      { cells: [away, b], withdrawals: [aWithdrawal("a")] },
      "release proven",
    ],
    [
      "is let go when its cell was given up",
      { cells: [aCell("a", { state: AWAY, spec: { forgotten: true } })] },
      "release proven",
    ],
    [
      "is withdrawn when a creation may still arrive",
      { proven, isLatePossible: (uid) => uid === "uid-a" },
      "withdraw a 1 0",
    ],
    ["deletes the copies first", { proven, copies: [copy] }, "copies 1"],
    ["waits for the copies", { proven, copies: [{ ...copy, metadata: { ...copy.metadata, ...going } }] }, ""],
    [
      "asks all cells of the city without a placement",
      {
        deployment: onHub({ metadata: { ...going, annotations: { "berth.dev/source-uid": "source-uid" } } }),
        cells: [away, b, aCell("c", { spec: { city: "ORD" } })],
      },
      "prove b, withdraw a undefined undefined",
    ],
  ])("%s", (_, view, expected) =>
    expect(told(decide({ deployment, source: "deleting", ...view }))).toBe(expected),
  );

  it("2.12 is deleted in the cell for a source that is gone, as for one that is being deleted", () => {
    expect(told(decide({ deployment, source: "gone", found: [aFound(a)] }))).toBe("delete a");
  });

  it("is not touched after Berth's finalizer has gone", () => {
    const ended = onHub({ metadata: { ...going, finalizers: ["other"] } });
    expect(told(decide({ deployment: ended, source: "deleting", found: [aFound(a)] }))).toBe("");
  });
});

it.each(["deleting", "gone"] as const)(
  "a %s source deletes nothing before the hub's own deletion",
  (source) => {
    expect(told(decide({ source, found: [aFound(a, { template: aTemplate("app:0") })] }))).toBe("");
  },
);

it("a source of which nothing is known creates nothing, and may change what is there", () => {
  expect(told(decide({ source: "unknown" }))).toBe("");
  expect(told(decide({ source: "unknown", found: [aFound(a, { template: aTemplate("app:0") })] }))).toBe(
    "patch a spec",
  );
});
