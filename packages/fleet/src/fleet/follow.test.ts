import { type Documents, documentOfFlag, type Fault, type Host } from "@berth/host";
import { describe, expect, it } from "vitest";
import { type FleetSpec, fleetKind } from "./document.ts";
import { followFleet, NEEDS_RESTART, tellOfNewFleet } from "./follow.ts";

const SPEC = fleetKind.spec.parse({ mode: "single", cities: ["DFW"], project: { id: "web" } });

/** The files of a running Berth. */
class Files {
  readonly faults: Fault[] = [];
  readonly #listeners: ((documents: Documents) => void)[] = [];
  readonly host: Pick<Host, "onFiles" | "onFault"> = {
    onFiles: (listener) => void this.#listeners.push(listener),
    onFault: (fault) => void this.faults.push(fault),
  };

  /** `undefined`: no file has a Fleet. */
  read(spec: FleetSpec | undefined): void {
    const document = spec && { ...documentOfFlag(fleetKind, spec), file: "fleet.yaml", line: 3, column: 1 };
    const documentsOf = () => (document === undefined ? [] : [document]);
    const documents = { documentsOf, specOf: () => spec } as unknown as Documents;
    for (const listener of this.#listeners) listener(documents);
  }

  get told(): readonly string[] {
    return this.faults.splice(0).map(({ message }) => message);
  }
}

/** A Berth that started with this Fleet, and the Fleets that came into force after it. */
function started(contradicts?: (spec: FleetSpec) => string | undefined) {
  const files = new Files();
  const cities: string[] = [];
  const fleet = followFleet(files.host, { spec: SPEC, ...(contradicts && { contradicts }) }, (before) =>
    cities.push(`${before.cities} → ${fleet.spec.cities}`),
  );
  return { files, fleet, cities };
}

describe("a Fleet that changes", () => {
  it("comes into force at once, and not again while it stays so", () => {
    const { files, fleet, cities } = started();
    for (const spec of [SPEC, { ...SPEC, cities: ["ORD"] }, { ...SPEC, cities: ["ORD"] }, SPEC])
      files.read(spec);
    expect(cities).toEqual(["DFW → ORD", "ORD → DFW"]);
    expect([fleet.spec, files.told]).toEqual([SPEC, []]);
  });

  it.each([
    ["mode", { mode: "cell", cell: "dfw-01", project: undefined }],
    ["cell", { cell: "other" }],
    ["quota", { quota: { from: "Cluster" } }],
  ] as const)(
    "in its %s stays out of force as a whole, and that is told once at its place",
    (field, change) => {
      const { files, fleet, cities } = started();
      const after = { ...SPEC, ...change, cities: ["ORD"] };
      files.read(SPEC);
      files.read(after);
      files.read(after);
      expect([fleet.spec, cities]).toEqual([SPEC, []]);
      expect(files.faults).toEqual([
        expect.objectContaining({ file: "fleet.yaml", line: 3, severity: "error", reason: NEEDS_RESTART }),
      ]);
      expect(files.told).toEqual([
        `a change of ${field} takes effect when Berth starts again: the Fleet before stays in force`,
      ]);
      files.read({ ...SPEC, cities: ["ORD"] });
      expect([cities, files.told]).toEqual([["DFW → ORD"], []]);
      files.read(after);
      expect(files.told).toHaveLength(1);
    },
  );

  it("against the flags of the process stays out of force", () => {
    const { files, fleet } = started(({ project }) => (project?.id === "web" ? undefined : "--project web"));
    files.read({ ...SPEC, project: { id: "other" } });
    expect([fleet.spec, files.told]).toEqual([SPEC, ["--project web"]]);
  });

  it("by being taken away stays in force, and that is told at the place where it was", () => {
    const { files, fleet } = started();
    files.read(SPEC);
    files.read(undefined);
    expect(fleet.spec).toBe(SPEC);
    expect(files.faults[0]).toMatchObject({ file: "fleet.yaml", line: 3 });
    expect(files.told).toEqual([
      "the Fleet is gone from the files: it stays in force until Berth starts again",
    ]);
  });
});

it("a Fleet of flags has no document that could be gone", () => {
  const { files } = started();
  files.read(undefined);
  expect(files.told).toEqual([]);
});

it("a Fleet that comes after the start is told of, and is no fault once it is gone", () => {
  const files = new Files();
  tellOfNewFleet(files.host);
  files.read(undefined);
  expect(files.told).toEqual([]);
  files.read(SPEC);
  expect(files.told).toEqual(["Berth started without a Fleet: start it again to run Workloads"]);
});
