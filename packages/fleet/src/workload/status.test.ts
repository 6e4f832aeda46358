import { describe, expect, it } from "vitest";
import type { WorkloadDeployment, WorkloadStatus } from "../api/workload.ts";
import { aCondition, aDeployment } from "../deployment/testing/fixtures.ts";
import { aPlacement, aStatus, aWorkload, decide, verdict } from "./testing/fixtures.ts";

const dfw = (status?: WorkloadDeployment["status"]) => aDeployment({ ...(status && { status }) });
const ord = (status?: WorkloadDeployment["status"]) =>
  aDeployment({ name: "w-us-ord", city: "ORD", ...(status && { status }) });

describe("the status of a Workload", () => {
  it("R11 sums its deployments, by placement and in total", () => {
    const placements = [aPlacement("us", ["DFW", "ORD"]), aPlacement("eu", ["AMS"])];
    const ams = aDeployment({
      name: "w-eu-ams",
      placement: "eu",
      city: "AMS",
      status: aStatus(0, "False", "InstancesProvisioning"),
    });
    const found = [
      dfw(aStatus(2, "True", "StableInstanceFound")),
      ord(aStatus(1, "True", "StableInstanceFound")),
      ams,
    ];
    const { status } = decide(aWorkload({ placements }), found);
    expect(status).toMatchObject({
      deployments: 3,
      replicas: 6,
      readyReplicas: 3,
      updatedReplicas: 3,
      currentReplicas: 3,
      desiredReplicas: 6,
      observedGeneration: 1,
      placements: [
        { name: "eu", replicas: 1, readyReplicas: 0 },
        { name: "us", replicas: 5, readyReplicas: 3, updatedReplicas: 3 },
      ],
    });
    expect(verdict(status)).toBe("True/AvailablePlacementFound a placement is available");
    expect(status?.placements?.map((it) => verdict(it))).toEqual([
      "False/NoAvailableDeployments no deployment of the placement is available",
      "True/AvailableDeploymentFound a deployment of the placement is available",
    ]);
  });

  it("R11 is about a new spec once all deployments have it and have counted", () => {
    const at = (observedGeneration: number, image?: string, cities = ["DFW"], hasNetwork = true) => {
      const counted = { ...aStatus(2, "True", "StableInstanceFound"), observedGeneration };
      const workload = aWorkload({
        placements: [aPlacement("us", cities)],
        metadata: { generation: 2 },
        ...(image !== undefined && { image }),
      });
      return decide(workload, [dfw(counted)], { hasNetwork: () => hasNetwork }).status?.observedGeneration;
    };
    expect(at(1)).toBe(2);
    expect(at(0)).toBeUndefined();
    expect(at(1, "registry.test/app:2")).toBeUndefined();
    expect(at(1, undefined, ["DFW", "ORD"])).toBeUndefined();
    expect(at(1, undefined, ["DFW", "ORD"], false)).toBe(2);
  });

  it.each<[string, number, string, readonly string[], number]>([
    ["all deployments have it and have counted", 1, "app:1", [], 2],
    ["a deployment has not counted", 0, "app:1", [], 1],
    ["a deployment has another template", 1, "app:2", [], 1],
    ["a Network is missing, and a deployment has another template", 1, "app:2", ["default"], 1],
    ["a Network is missing, and no deployment is behind", 1, "app:1", ["default"], 2],
  ])(
    "R11 counters and all conditions are about one generation: %s",
    (_, counted, image, missing, expected) => {
      const before = {
        replicas: 1,
        currentReplicas: 1,
        updatedReplicas: 1,
        desiredReplicas: 1,
        readyReplicas: 1,
      };
      const workload = {
        ...aWorkload({ placements: [aPlacement("us", ["DFW"])], metadata: { generation: 2 }, image }),
        status: { ...before, deployments: 1, observedGeneration: 1 },
      };
      const found = [dfw({ ...aStatus(2, "True", "StableInstanceFound"), observedGeneration: counted })];
      const { status } = decide(workload, found, { hasNetwork: (__, name) => !missing.includes(name) });
      const conditions = [...(status?.conditions ?? []), ...(status?.placements?.[0]?.conditions ?? [])];
      expect(conditions).toHaveLength(2);
      expect([status, ...conditions].map((it) => it?.observedGeneration)).toEqual([
        expected,
        expected,
        expected,
      ]);
    },
  );

  it("counts a deployment whose placement left the spec until it is gone", () => {
    const { status } = decide(aWorkload({ placements: [aPlacement("eu", ["DFW"])] }), [
      dfw(aStatus(1, "False", "x")),
    ]);
    expect(verdict(status?.placements?.[1])).toMatch(/^False\/NoAvailableDeployments/);
    expect(status).toMatchObject({
      deployments: 1,
      replicas: 2,
      placements: [
        { name: "eu", replicas: 0 },
        { name: "us", replicas: 2 },
      ],
    });
  });

  const blocked = (reason: string, message = reason) => aStatus(0, "False", reason, message);

  it.each<[string, readonly WorkloadDeployment[], string]>([
    [
      "R12 the worst reason of all",
      [dfw(blocked("QuotaNotGranted")), ord(blocked("ImageUnavailable", "w-us-ord-0: pull failed"))],
      "False/ImageUnavailable w-us-ord-0: pull failed",
    ],
    [
      "the first of equals, by name",
      [ord(blocked("InstanceCrashing")), dfw(blocked("ImageUnavailable"))],
      "False/ImageUnavailable ImageUnavailable",
    ],
    [
      "a missing Location before a bad image",
      [dfw(blocked("ImageUnavailable")), ord(blocked("NoMatchingLocation"))],
      "False/NoMatchingLocation NoMatchingLocation",
    ],
    [
      "a failed network before all",
      [dfw(blocked("NoMatchingLocation")), ord(blocked("NetworkFailedToCreate"))],
      "False/NetworkFailedToCreate NetworkFailedToCreate",
    ],
    [
      "quota before networks that are made",
      [dfw(blocked("NetworkProvisioning")), ord(blocked("QuotaNotGranted"))],
      "False/QuotaNotGranted QuotaNotGranted",
    ],
    [
      "the default for an unknown reason",
      [dfw(blocked("Odd")), ord()],
      "False/NoAvailablePlacements no placement is available",
    ],
    ["the default without a status", [dfw(), ord()], "False/NoAvailablePlacements no placement is available"],
  ])("shows %s", (_, deployments, text) => {
    expect(verdict(decide(aWorkload(), deployments).status)).toBe(text);
  });

  it("a placement without any city that is served says so, and so does the Workload", () => {
    const cityNote = (city: string): string =>
      city === "ORD" ? " (in a namespace that does not count)" : "";
    const { status } = decide(aWorkload(), [], { cities: new Set(), cityNote });
    const text =
      "False/NoMatchingLocations no Location serves a city of the placement: DFW, ORD (in a namespace that does not count)";
    expect(verdict(status)).toBe(text);
    expect(verdict(status?.placements?.[0])).toBe(text);
  });

  it("a placement without a served city hides no reason of another one", () => {
    const placements = [aPlacement("us", ["DFW"]), aPlacement("eu", ["AMS"])];
    const { status } = decide(aWorkload({ placements }), [dfw(blocked("ImageUnavailable"))]);
    expect(status?.placements?.map((it) => verdict(it))).toEqual([
      "False/NoMatchingLocations no Location serves a city of the placement: AMS",
      "False/NoAvailableDeployments no deployment of the placement is available",
    ]);
  });

  it("says why the cities cannot be read, while a deployment waits for them", () => {
    const unread = { citiesUnread: "subnets (not served)" };
    const none = decide(aWorkload(), [], unread).status;
    expect(verdict(none)).toBe("False/NetworksNotRead subnets (not served)");
    const both = [dfw(blocked("ImageUnavailable")), ord(blocked("ImageUnavailable"))];
    expect(verdict(decide(aWorkload(), both, unread).status)).toMatch(/^False\/ImageUnavailable/);
  });

  it("says that nothing acts on maxReplicas, until it is taken out", () => {
    const scaleSettings = { minReplicas: 1, maxReplicas: 3, metrics: [] };
    const us = { name: "us", cityCodes: ["DFW"], scaleSettings };
    const scaled = aWorkload({ placements: [us, aPlacement("eu", ["ORD"])] });
    const { status } = decide(scaled, []);
    expect(verdict(status, "Scaling")).toMatch(/^False\/AutoscalingNotSupported nothing acts on maxReplicas/);
    expect(verdict(decide({ ...aWorkload(), ...(status && { status }) }).status, "Scaling")).toBe("");
  });

  it("says which deployment fails while another is available, until it does not", () => {
    const available = dfw(aStatus(2, "True", "StableInstanceFound"));
    const partly = aStatus(1, "True", "StableInstanceFound");
    const failing = aCondition("Failing", "True", "ImageUnavailable", "w-us-ord-1: not found");
    const conditions = [...(partly.conditions ?? []), failing];
    const { status } = decide(aWorkload(), [available, ord({ ...partly, conditions })]);
    expect(verdict(status)).toBe("True/AvailablePlacementFound a placement is available");
    expect(verdict(status, "Failing")).toBe("True/ImageUnavailable w-us-ord-1: not found");
    const mended = decide({ ...aWorkload(), ...(status && { status }) }, [available, ord(partly)]);
    expect(mended.status?.conditions?.map(({ type }) => type)).toEqual(["Available"]);
  });

  it("counts apart what no cell confirms, since the earliest loss, and says so until all are heard", () => {
    const lost = (since: string, cell: string) => {
      const status = aStatus(1, "True", "StableInstanceFound");
      const stale = aCondition("Stale", "True", "CellUnreachable", `${cell} is silent`);
      return { ...status, unheard: 1, since, conditions: [...(status.conditions ?? []), stale] };
    };
    const away = [dfw(lost("2026-01-01T00:02:00Z", "dfw-01")), ord(lost("2026-01-01T00:01:00Z", "ord-01"))];
    const { status } = decide(aWorkload(), away);
    const counted = { readyReplicas: 2, unheard: 2, since: "2026-01-01T00:01:00Z" };
    expect(status).toMatchObject({ ...counted, placements: [counted] });
    expect(verdict(status, "Stale")).toBe("True/CellUnreachable w-us-dfw: dfw-01 is silent, and 1 more");
    const heard = [
      dfw(aStatus(1, "True", "StableInstanceFound")),
      ord(aStatus(1, "True", "StableInstanceFound")),
    ];
    const back = decide({ ...aWorkload(), ...(status && { status }) }, heard).status;
    expect(verdict(back, "Stale")).toBe("");
    for (const one of [back, back?.placements?.[0]])
      for (const field of ["unheard", "since"]) expect(one).not.toHaveProperty(field);
  });

  it("H19 is not written when nothing changes, whatever the time", () => {
    const deployments = [dfw(aStatus(2, "True", "StableInstanceFound")), ord(blocked("ImageUnavailable"))];
    const { metadata: { generation: _generation, ...metadata } = {}, ...rest } = aWorkload();
    for (const workload of [aWorkload(), { ...rest, metadata }]) {
      const { status } = decide(workload, deployments);
      const settled = decide({ ...workload, ...(status && { status }) }, deployments, { nowMs: 9e12 });
      expect(settled).toEqual({ create: [], patch: [], delete: [], findings: [] });
      expect(Object.keys(status ?? {})).not.toContain(
        workload.metadata === metadata ? "observedGeneration" : "",
      );
    }
  });

  it("keeps what others wrote to it", () => {
    const workload = aWorkload({ placements: [aPlacement("us", ["DFW"]), aPlacement("eu", ["ORD"])] });
    const { status } = decide(workload);
    const theirs = {
      gateway: {},
      placements: status?.placements?.map((it) => Object.assign(it, { theirs: it.name })),
    };
    const stored = { ...status, ...theirs } as WorkloadStatus;
    const merged = decide({ ...workload, status: stored }, [dfw()]).status;
    expect(merged).toMatchObject({
      replicas: 0,
      deployments: 1,
      gateway: {},
      placements: [{ theirs: "eu" }, { theirs: "us" }],
    });
  });
});
