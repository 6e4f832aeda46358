import { type Documents, documentOfFlag, type Fault, type Host } from "@berth/host";
import type { KubeClient } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { type FleetSpec, fleetKind } from "./document.ts";
import { followFleet, NOT_IN_FORCE, tellOfNewFleet } from "./follow.ts";
import type { FleetSettings } from "./settings.ts";

const SPEC = fleetKind.spec.parse({ mode: "single", cities: ["DFW"], project: { id: "web" } });
const ORD: FleetSpec = { ...SPEC, cities: ["ORD"] };
const withQuota = (kubeconfig: string): FleetSpec => ({ ...SPEC, quota: { from: "Kubeconfig", kubeconfig } });
const STAYS = ": the Fleet before stays in force";

/** The files of a running Berth. */
class Files {
  readonly faults: Fault[] = [];
  readonly #listeners: ((documents: Documents) => void)[] = [];
  readonly host: Pick<Host, "onFiles" | "onFault"> = {
    onFiles: (listener) => void this.#listeners.push(listener),
    onFault: (fault) => void this.faults.push(fault),
  };

  /** `undefined`: no file has a Fleet. */
  async read(spec: FleetSpec | undefined): Promise<void> {
    const document = spec && { ...documentOfFlag(fleetKind, spec), file: "fleet.yaml", line: 3, column: 1 };
    const documentsOf = () => (document === undefined ? [] : [document]);
    for (const listener of this.#listeners) listener({ documentsOf } as unknown as Documents);
    await new Promise((resolve) => setImmediate(resolve));
  }

  get told(): readonly string[] {
    return this.faults.splice(0).map(({ message }) => message);
  }
}

/** A Berth that started with this Fleet, and what came into force after it. */
function started(settings: Partial<FleetSettings> = {}) {
  const files = new Files();
  const changes: string[] = [];
  const fleet = followFleet(files.host, { spec: SPEC, ...settings }, ({ before, quota }) =>
    changes.push(`${before.cities.join()} → ${fleet.spec.cities.join()}${quota ? ` ${quota.server}` : ""}`),
  );
  return { files, fleet, changes };
}

describe("a Fleet that changes", () => {
  it("comes into force, and not again while it stays so", async () => {
    const { files, fleet, changes } = started();
    for (const spec of [SPEC, ORD, { ...ORD }, SPEC]) await files.read(spec);
    expect(changes).toEqual(["DFW → ORD", "ORD → DFW"]);
    expect([fleet.spec, files.told]).toEqual([SPEC, []]);
  });

  it.each([
    ["mode", { mode: "cell", cell: "dfw-01", project: undefined }],
    ["cell", { cell: "other" }],
    ["quota", { quota: { from: "Kubeconfig", kubeconfig: "quota" } }],
  ] as const)(
    "in its %s stays out of force as a whole, and that is told once at its place",
    async (field, change) => {
      const { files, fleet, changes } = started();
      for (const spec of [SPEC, { ...ORD, ...change }, { ...ORD, ...change }]) await files.read(spec);
      expect([fleet.spec, changes]).toEqual([SPEC, []]);
      expect(files.faults).toMatchObject([
        { file: "fleet.yaml", line: 3, severity: "error", reason: NOT_IN_FORCE },
      ]);
      expect(files.told).toEqual([`a change of ${field} has to wait for the next start${STAYS}`]);
      await files.read(ORD);
      expect([changes, files.told]).toEqual([["DFW → ORD"], []]);
      await files.read({ ...ORD, ...change });
      expect(files.told).toHaveLength(1);
    },
  );

  it("against the flags of the process stays out of force, and may go again", async () => {
    const contradicts = ({ project }: FleetSpec) => (project?.id === "web" ? undefined : "--project web");
    const { files, fleet } = started({ contradicts });
    await files.read({ ...SPEC, project: { id: "other" } });
    expect([fleet.spec, files.told]).toEqual([SPEC, [`--project web${STAYS}`]]);
    await files.read(undefined);
    expect(files.told).toEqual([]);
  });

  it("by being taken away stays in force, and that is told at the place where it was", async () => {
    const { files, fleet } = started();
    await files.read(SPEC);
    await files.read(undefined);
    expect(fleet.spec).toBe(SPEC);
    expect(files.faults).toMatchObject([{ file: "fleet.yaml", line: 3 }]);
    expect(files.told).toEqual([`the Fleet is gone from the files${STAYS} until Berth starts again`]);
  });
});

describe("a list of projects", () => {
  const [web, shop] = ["web", "shop"].map((path) => ({ path, kubeconfig: path }));
  const listing = (...kubeconfigs: readonly (typeof web)[]): FleetSpec =>
    fleetKind.spec.parse({ mode: "management", hub: "self", projects: { kubeconfigs } });
  function following(readProjects?: FleetSettings["readProjects"]) {
    const files = new Files();
    const lists: (readonly string[] | undefined)[] = [];
    const settings = { spec: listing(web), ...(readProjects && { readProjects }) };
    followFleet(files.host, settings, ({ projects }) => lists.push(projects?.map(({ path }) => path)));
    return { files, lists };
  }
  const reads: FleetSettings["readProjects"] = (listed) =>
    Promise.resolve(listed.map(({ path, kubeconfig }) => ({ path, to: { server: kubeconfig } as never })));

  it("comes into force with its connections, and other changes leave them alone", async () => {
    const { files, lists } = following(reads);
    await files.read(listing(web, shop));
    await files.read({ ...listing(web, shop), cities: ["DFW"] });
    expect([lists, files.told]).toEqual([[["web", "shop"], undefined], []]);
  });

  it("stays out of force where a kubeconfig cannot be read, or where there was none", async () => {
    const { files, lists } = following(() => Promise.reject(new Error("no such file")));
    await files.read(listing(web, shop));
    await files.read({ ...listing(web), projects: "self" });
    expect([lists, files.told]).toEqual([
      [],
      [`projects: no such file${STAYS}`, `a change of projects has to wait for the next start${STAYS}`],
    ]);
  });
});

describe("another quota service", () => {
  const opened = (server: string, closed: string[] = []) =>
    ({ server, close: () => Promise.resolve(void closed.push(server)) }) as unknown as KubeClient;

  it("comes into force with its connection, and without one where the claims are in this cluster", async () => {
    const { files, changes } = started({ connect: (file) => Promise.resolve(opened(file)) });
    await files.read(withQuota("one"));
    await files.read({ ...withQuota("one"), cities: ["ORD"] });
    await files.read({ ...ORD, quota: { from: "Cluster" } });
    expect([changes, files.told]).toEqual([["DFW → DFW one", "DFW → ORD", "ORD → ORD"], []]);
  });

  it("whose kubeconfig cannot be read stays out of force, with the reason", async () => {
    const { files, fleet } = started({ connect: () => Promise.reject(new Error("no such file")) });
    await files.read(withQuota("one"));
    expect([fleet.spec, files.told]).toEqual([SPEC, [`quota.kubeconfig: no such file${STAYS}`]]);
  });

  it("is closed unused when the Fleet changes again before it is open", async () => {
    const opening = Promise.withResolvers<KubeClient>();
    const closed: string[] = [];
    const { files, fleet, changes } = started({ connect: () => opening.promise });
    await files.read(withQuota("slow"));
    await files.read(ORD);
    opening.resolve(opened("slow", closed));
    await files.read(ORD);
    expect([fleet.spec, changes, closed]).toEqual([ORD, ["DFW → ORD"], ["slow"]]);
  });
});

it("a Fleet of flags has no document that could be gone", async () => {
  const { files } = started();
  await files.read(undefined);
  expect(files.told).toEqual([]);
});

it("a Fleet that comes after the start is told of, and is no fault once it is gone", async () => {
  const files = new Files();
  tellOfNewFleet(files.host);
  await files.read(undefined);
  expect(files.told).toEqual([]);
  await files.read(SPEC);
  expect(files.told).toEqual(["Berth started without a Fleet: start it again to run Workloads"]);
});
