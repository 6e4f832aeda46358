import { describe, expect, it } from "vitest";
import type { Cell } from "../../api/cell.ts";
import { type Candidate, type CellsThere, candidateFaults, nameFaults } from "./candidate.ts";

const candidate: Candidate = {
  name: "dfw-01",
  city: "DFW",
  uid: "uid-1",
  fingerprint: "print-1",
  missingKinds: [],
  missingRights: [],
};

function aCell(name: string, spec: Partial<Cell["spec"]> = {}, metadata: Cell["metadata"] = {}): Cell {
  return {
    metadata: { name, ...metadata },
    spec: { city: "DFW", uid: `uid-of-${name}`, secretRef: { name: `berth-cell-${name}` }, ...spec },
  };
}

const there: CellsThere = {
  cells: [],
  fingerprints: new Map(),
  own: { uid: "uid-0", fingerprint: "print-0" },
};
const itself = aCell("dfw-01", { uid: "uid-1" });
const deletionTimestamp = "2026-01-01T00:00:00Z";

describe("candidateFaults", () => {
  it.each<[string, Partial<CellsThere>]>([
    ["a new cluster", {}],
    [
      "another cluster is there",
      { cells: [aCell("ord-01")], fingerprints: new Map([["ord-01", "print-2"]]) },
    ],
    ["it is the Cell already", { cells: [itself] }],
    ["with the same credential", { cells: [itself], fingerprints: new Map([["dfw-01", "print-1"]]) }],
  ])("finds none: %s", (_, parts) => {
    expect(candidateFaults(candidate, { ...there, ...parts })).toEqual([]);
  });

  it.each<[string, Partial<Candidate>, Partial<CellsThere>, RegExp]>([
    ["DuplicateIdentity", { uid: "uid-0" }, {}, /it is the cluster that Berth runs in/],
    ["DuplicateIdentity", {}, { cells: [aCell("other", { uid: "uid-1" })] }, /it is Cell other already/],
    [
      "DuplicateIdentity",
      {},
      { cells: [itself, aCell("other", { uid: "uid-1" })] },
      /it is Cell other already/,
    ],
    ["SharedCredential", { fingerprint: "print-0" }, {}, /the one of Berth's cluster/],
    ["SharedCredential", {}, { fingerprints: new Map([["ord-01", "print-1"]]) }, /Cell ord-01 has the same/],
    ["WrongIdentity", {}, { cells: [aCell("dfw-01")] }, /with uid uid-of-dfw-01: use another name/],
    ["CellFixed", { city: "ORD" }, { cells: [itself] }, /is in city DFW/],
    ["CellEnding", {}, { cells: [aCell("dfw-01", { uid: "uid-1", forgotten: true })] }, /is forgotten/],
    [
      "CellEnding",
      {},
      { cells: [aCell("dfw-01", { uid: "uid-1" }, { deletionTimestamp })] },
      /being deleted/,
    ],
    ["ApiMissing", { missingKinds: ["Instance"] }, {}, /does not serve Instance: install the CRDs/],
    ["RightsMissing", { missingRights: ['verb "list" on "x"'] }, {}, /needed: verb "list" on "x"$/],
  ])("says %s", (reason, parts, more, message) => {
    const faults = candidateFaults({ ...candidate, ...parts }, { ...there, ...more });
    expect(faults).toEqual([{ reason, message: expect.stringMatching(message) }]);
  });

  it("says all at once", () => {
    const faults = candidateFaults(
      { ...candidate, fingerprint: "print-0", missingKinds: ["Instance"] },
      { ...there, cells: [aCell("other", { uid: "uid-1" })] },
    );
    expect(faults.map(({ reason }) => reason)).toEqual([
      "DuplicateIdentity",
      "SharedCredential",
      "ApiMissing",
    ]);
  });
});

describe("nameFaults", () => {
  it.each([
    ["dfw-01", "DFW", 0],
    ["DFW-01", "DFW", 1],
    ["dfw.01", "DFW", 1],
    ["dfw-01", "", 1],
    ["", "D F W", 2],
  ])("of %j in %j: %i", (name, city, count) => {
    expect(nameFaults({ name, city })).toHaveLength(count);
  });
});
