import { describe, expect, it } from "vitest";
import type { WorkloadDeployment } from "../api/workload.ts";
import { aDeployment } from "../deployment/testing/fixtures.ts";
import { citiesNamed, citiesOf } from "./decide.ts";
import { aPlacement, aStatus, aWorkload, decide, verdict } from "./testing/fixtures.ts";

const names = (objects: readonly WorkloadDeployment[]) => objects.map(({ metadata }) => metadata?.name);
const SETTLED = { create: [], patch: [], delete: [], findings: [] };
const DFW = aDeployment();
const ORD = aDeployment({ name: "w-us-ord", city: "ORD" });
const GOING = { deletionTimestamp: "2026-01-01T00:00:00Z" };

describe("the deployments of a Workload", () => {
  it("A1 are one for each placement and city, with owner, label and finalizer", () => {
    const workload = aWorkload();
    const { create, patch, delete: deleted, status } = decide(workload);
    expect(names(create)).toEqual(["w-us-dfw", "w-us-ord"]);
    expect([...patch, ...deleted]).toEqual([]);
    expect(status).toMatchObject({ deployments: 0 });
    expect(create[0]).toEqual({
      apiVersion: "compute.datumapis.com/v1alpha",
      kind: "WorkloadDeployment",
      metadata: {
        name: "w-us-dfw",
        namespace: "default",
        labels: { "compute.datumapis.com/workload-uid": "uid-w" },
        finalizers: ["compute.datumapis.com/workload-controller"],
        ownerReferences: [
          {
            apiVersion: "compute.datumapis.com/v1alpha",
            kind: "Workload",
            name: "w",
            uid: "uid-w",
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: DFW.spec,
    });
  });

  it("have from the start what the caller says, in place of a finalizer", () => {
    const born = { finalizers: ["a/federator"], annotations: { "a/namespace": "ns-u" } };
    expect(decide(aWorkload(), [], { born }).create[0]?.metadata).toMatchObject(born);
  });

  it("are created only in cities that a Location serves", () => {
    const { create, findings, status } = decide(aWorkload(), [], {
      cities: new Set(["ORD"]),
      cityNote: (city) => `: not ${city}`,
    });
    expect(names(create)).toEqual(["w-us-ord"]);
    const message = 'no Location serves city "DFW" of placement "us": not DFW';
    expect(findings).toEqual([{ reason: "CityUnserved", about: "w-us-dfw", message }]);
    expect(verdict(status)).toBe("False/NoAvailablePlacements no placement is available");
  });

  it("are not created while the cities are not known, and those that exist follow the spec", () => {
    const { create, patch, findings, status } = decide(aWorkload({ image: "app:2" }), [DFW], {
      citiesUnread: "locations: not served",
    });
    expect([create, findings, names(patch.map((it) => it.deployment))]).toEqual([[], [], ["w-us-dfw"]]);
    expect(verdict(status)).toBe("False/NetworksNotRead locations: not served");
    const counted = aDeployment({ status: aStatus(2, "True", "StableInstanceFound") });
    expect(decide(aWorkload(), [counted], { citiesUnread: "" }).status?.observedGeneration).toBeUndefined();
  });

  it("have the cities of the Locations that count, and a Workload names its own", () => {
    const at = (city: string, namespace?: string) => ({
      ...(namespace !== undefined && { metadata: { namespace } }),
      spec: { topology: { "topology.datum.net/city-code": city } },
    });
    const locations = [at("DFW", "a"), at("ORD", "b"), at("AMS"), { spec: {} }, {}];
    expect([...citiesOf(locations)]).toEqual(["DFW", "ORD", "AMS"]);
    expect([...citiesOf(locations, ["a", ""])]).toEqual(["DFW", "AMS"]);
    expect(
      citiesNamed(aWorkload({ placements: [aPlacement("a", ["X", "Y"]), aPlacement("b", ["X"])] })),
    ).toEqual(["X", "Y", "X"]);
    expect(citiesNamed({})).toEqual([]);
  });

  it("H7 stay and follow the spec when their Location vanishes", () => {
    const { patch, delete: deleted } = decide(aWorkload({ image: "app:2" }), [DFW, ORD], {
      cities: new Set(),
    });
    expect(deleted).toEqual([]);
    expect(names(patch.map(({ deployment }) => deployment))).toEqual(["w-us-dfw", "w-us-ord"]);
  });

  it("A8 go when the placement or the city leaves the spec, once", () => {
    const placements = [aPlacement("us", ["DFW"])];
    expect(names(decide(aWorkload({ placements }), [DFW, ORD]).delete)).toEqual(["w-us-ord"]);
    const going = { ...ORD, metadata: { ...ORD.metadata, ...GOING } };
    expect(decide(aWorkload({ placements }), [DFW, going]).delete).toEqual([]);
    const renamed = decide(aWorkload({ placements: [aPlacement("eu", ["DFW"])] }), [DFW]);
    expect(names(renamed.delete)).toEqual(["w-us-dfw"]);
    expect(names(renamed.create)).toEqual(["w-eu-dfw"]);
  });

  it("H17 are patched only where they differ, and labels and annotations of others stay", () => {
    const metadata = { ...DFW.metadata, labels: { theirs: "x" }, annotations: { theirs: "y" } };
    const theirs = { ...DFW, metadata };
    const workload = aWorkload({ placements: [aPlacement("us", ["DFW"], 5)], image: "app:2" });
    expect(decide(workload, [theirs]).patch).toEqual([
      {
        deployment: theirs,
        body: {
          metadata: { labels: { "compute.datumapis.com/workload-uid": "uid-w" } },
          spec: {
            template: { spec: { runtime: { sandbox: { containers: [{ name: "app", image: "app:2" }] } } } },
            scaleSettings: { minReplicas: 5 },
          },
        },
      },
    ]);
  });

  it("H19 are not patched for values that the API server fills in", () => {
    const { spec } = DFW;
    const filled = spec && {
      ...DFW,
      spec: { ...spec, template: { ...spec.template, metadata: { labels: {} } } },
    };
    const workload = aWorkload({
      placements: [{ name: "us", cityCodes: ["DFW"], scaleSettings: { minReplicas: 2 } }],
    });
    expect(decide(workload, filled ? [filled] : []).patch).toEqual([]);
  });

  it("wait for one that is being deleted under the same name", () => {
    const going = { ...DFW, metadata: { ...DFW.metadata, ...GOING } };
    const { create, patch } = decide(aWorkload({ placements: [aPlacement("us", ["DFW"])], image: "app:2" }), [
      going,
    ]);
    expect([...create, ...patch]).toEqual([]);
  });

  it("take a fixed number of passes for 1000 placements", () => {
    const placements = Array.from({ length: 1000 }, (_, at) => aPlacement(`p${at}`, ["DFW"]));
    expect(decide(aWorkload({ placements })).create).toHaveLength(1000);
  });
});

describe("names that collide", () => {
  it("H9 the second Workload says DeploymentConflict, and the deployment of the first is not touched", () => {
    const first = decide(aWorkload({ name: "a", placements: [aPlacement("b-c", ["DFW"])] })).create;
    const second = aWorkload({ name: "a-b", placements: [aPlacement("c", ["DFW"])], image: "app:2" });
    const { create, patch, delete: deleted, status, findings } = decide(second, first);
    expect([...create, ...patch, ...deleted]).toEqual([]);
    const message =
      'deployment "a-b-c-dfw" is of Workload "a", placement "b-c", city "DFW": rename this Workload or its placement';
    expect(findings).toEqual([{ reason: "DeploymentNameTaken", about: "a-b-c-dfw", message }]);
    expect(status?.conditions).toMatchObject([
      { type: "Available", status: "False", reason: "DeploymentNameTaken", message },
      { type: "DeploymentConflict", status: "True", reason: "DeploymentNameTaken", message },
    ]);
  });

  it("H9 two placements of one Workload do not share a deployment", () => {
    const placements = [aPlacement("a", ["B-C"]), aPlacement("a-b", ["C"])];
    const cities = new Set(["B-C", "C"]);
    const { create } = decide(aWorkload({ placements }), [], { cities });
    expect(create.map(({ spec }) => spec?.placementName)).toEqual(["a"]);
    const { patch, findings } = decide(aWorkload({ placements }), create, { cities });
    expect(patch).toEqual([]);
    expect(findings).toMatchObject([{ reason: "DeploymentNameTaken" }]);
  });

  it("H10 a city in several spellings has one deployment", () => {
    const workload = aWorkload({ placements: [aPlacement("us", ["DFW", "dfw", "Dfw"])] });
    const { create, status } = decide(workload);
    expect(create).toHaveLength(1);
    const said = 'two placements and cities of the Workload make the name "w-us-dfw": rename a placement';
    expect(verdict(status, "DeploymentConflict")).toBe(`True/DeploymentNameTaken ${said}; ${said}`);
  });

  it.each([
    ["Workload", aDeployment({ workload: { name: "w", uid: "uid-0" } })],
    ["placement", aDeployment({ placement: "eu" })],
    ["city", aDeployment({ city: "dfw" })],
  ])("H9 a deployment of another %s alone is not that of the target", (_, other) => {
    const workload = aWorkload({ placements: [aPlacement("us", ["DFW"])], image: "app:2" });
    const { patch, findings } = decide(workload, [other]);
    expect([patch, findings.map(({ reason }) => reason)]).toEqual([[], ["DeploymentNameTaken"]]);
  });
});

describe("networks", () => {
  it("A17 nothing changes while one is missing, and all missing ones are named in order", () => {
    const workload = aWorkload({ image: "app:2" });
    const spec = workload.spec;
    const networkInterfaces = [
      { network: { name: "z", namespace: "other" } },
      { network: { name: "z", namespace: "" } },
      ...["b", "a", "b"].map((name) => ({ network: { name } })),
    ];
    const many = {
      ...workload,
      ...(spec && {
        spec: { ...spec, template: { ...spec.template, spec: { ...spec.template.spec, networkInterfaces } } },
      }),
    };
    const { create, patch, findings, status } = decide(many, [DFW], {
      hasNetwork: (namespace, name) => namespace === "default" && name === "z",
    });
    expect([...create, ...patch]).toEqual([]);
    const message = (name: string) =>
      `Network ${name} does not exist: create it, or correct networkInterfaces of the Workload`;
    expect(findings).toEqual(
      ["a", "b", "other/z"].map((about) => ({ reason: "NetworkNotFound", about, message: message(about) })),
    );
    expect(status?.conditions).toMatchObject([
      {
        type: "Available",
        status: "False",
        reason: "NetworkNotFound",
        message: "Unable to find networks: a, b, other/z",
      },
    ]);
  });

  it("C20 its status is about the new generation where nothing was made, and not where what runs is older", () => {
    const observedOf = (deployments: readonly WorkloadDeployment[]) =>
      decide(aWorkload({ image: "app:2", metadata: { generation: 2 } }), deployments, {
        hasNetwork: () => false,
      }).status?.observedGeneration;
    expect([observedOf([]), observedOf([DFW])]).toEqual([2, undefined]);
  });

  it("R28 are not looked for without networking", () => {
    expect(decide(aWorkload(), [], { hasNetwork: undefined }).create).toHaveLength(2);
  });
});

describe("a Workload that comes and goes", () => {
  it("gets its finalizer in the same pass as its deployments", () => {
    const { finalizers, create } = decide(
      aWorkload({ metadata: { name: "w", uid: "uid-w", finalizers: ["a/b"] } }),
    );
    expect(finalizers).toEqual(["a/b", "compute.datumapis.com/workload-controller"]);
    expect(create).toHaveLength(2);
  });

  it("deletes its deployments, waits for them, and then loses its finalizer", () => {
    const [ours] = aWorkload().metadata?.finalizers ?? [];
    const workload = aWorkload({ metadata: { ...GOING, finalizers: ["a/b", ours ?? ""] } });
    const going = { ...ORD, metadata: { ...ORD.metadata, ...GOING } };
    expect(decide(workload, [DFW, going])).toEqual({ ...SETTLED, delete: [DFW] });
    expect(decide(workload, [going])).toEqual(SETTLED);
    expect(decide(workload, [])).toEqual({ ...SETTLED, finalizers: ["a/b"] });
    const released = aWorkload({ metadata: { ...GOING, finalizers: ["a/b"] } });
    expect(decide(released, [DFW])).toEqual(SETTLED);
  });

  it("is decided about with fields missing, and not without a spec", () => {
    const { spec } = aWorkload();
    const bare = { ...(spec && { spec }) };
    expect(decide({})).toEqual(SETTLED);
    expect(decide({ ...bare, metadata: { ...GOING } }, [])).toEqual(SETTLED);
    const { create, finalizers, delete: deleted } = decide(bare, [], { deployments: [{}] });
    expect(create.map(({ metadata }) => metadata)).toMatchObject([
      { name: "-us-dfw", labels: { "compute.datumapis.com/workload-uid": "" } },
      { name: "-us-ord" },
    ]);
    expect(Object.keys(create[0]?.metadata ?? {})).toEqual([
      "name",
      "labels",
      "finalizers",
      "ownerReferences",
    ]);
    expect(create[0]?.spec?.workloadRef).toEqual({ name: "", uid: "" });
    expect([finalizers, deleted]).toEqual([["compute.datumapis.com/workload-controller"], [{}]]);
  });
});
