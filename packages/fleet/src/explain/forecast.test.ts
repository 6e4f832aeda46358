import { describe, expect, it } from "vitest";
import type { Placement } from "../api/workload.ts";
import { anInstance } from "../deployment/testing/fixtures.ts";
import type { FleetFacts } from "./facts.ts";
import { forecastWorkload } from "./forecast.ts";
import { formatForecast, isChanging } from "./show-forecast.ts";
import {
  aDeployment,
  aWorkload,
  factsOf,
  instancesIn,
  networksUnread,
  placement,
  plain,
  quotaUnread,
  single,
  withQuota,
} from "./testing/facts.ts";

interface Scene {
  readonly placements?: readonly Placement[];
  /** Of the template that is planned. Default that of the deployment. */
  readonly image?: string;
  /** Instances of deployment `w-us-dfw`, which exists only with them. */
  readonly states?: string;
  readonly facts?: Partial<FleetFacts>;
}

function forecast({ placements = [placement("us", ["DFW"], 2)], image, states, facts }: Scene) {
  const deployment = aDeployment();
  const workload = aWorkload({ placements, ...(image !== undefined && { image }) });
  const present =
    states === undefined ? {} : { deployments: [deployment], instances: instancesIn(deployment, states) };
  return forecastWorkload(workload, factsOf({ ...present, ...facts }));
}

/** `w-us-dfw: + 0, ~ 1` */
function stepsOf(scene: Scene): readonly string[] {
  const signs = { create: "+", roll: "~", delete: "-" };
  return forecast(scene).deployments.map(({ name, is, steps, stops }) => {
    const all = steps.map((step) => `${signs[step.do]}${step.instance.slice(name.length + 1)}`);
    return [`${name} ${is}:`, ...all, ...(stops === undefined ? [] : [`! ${stops}`])].join(" ");
  });
}

describe("what follows from a Workload", () => {
  it.each<[string, Scene, readonly string[]]>([
    ["creates the lowest first", {}, ["w-us-dfw created: +0 +1"]],
    [
      "creates in any city while networks are off, and the Fleet lists none",
      {
        placements: [placement("us", ["LAX"], 1)],
        facts: { networks: "off", spec: { ...single, cities: [] } },
      },
      ["w-us-lax created: +0"],
    ],
    ["is nothing when all run", { states: "R R" }, ["w-us-dfw kept:"]],
    [
      "rolls the highest first",
      { states: "R R R", image: "app:2", placements: [placement("us", ["DFW"], 3)] },
      ["w-us-dfw changed: ~2 ~1 ~0"],
    ],
    [
      "replaces those that are not ready before all others",
      { states: "R N R", image: "app:2", placements: [placement("us", ["DFW"], 3)] },
      ["w-us-dfw changed: ~1 ~2 ~0"],
    ],
    [
      "removes what is too much before it rolls",
      { states: "R R R", image: "app:2", placements: [placement("us", ["DFW"], 1)] },
      ["w-us-dfw changed: -2 -1 ~0"],
    ],
    [
      "waits for one that is not ready, and goes on",
      { states: "N", placements: [placement("us", ["DFW"], 2)] },
      ["w-us-dfw kept: +1"],
    ],
    ["creates one anew that is being deleted", { states: "R D" }, ["w-us-dfw kept: +1"]],
    [
      "adds a city, and empties one that is not named any more",
      { states: "R R", placements: [placement("us", ["ORD"], 1)] },
      ["w-us-ord created: +0", "w-us-dfw deleted: -0 -1"],
    ],
  ])("%s", (_name, scene, expected) => {
    expect(stepsOf(scene)).toEqual(expected);
  });

  it("stops before a name that is taken", () => {
    const other = anInstance(aDeployment({ name: "other" }), 0);
    const taken = { ...other, metadata: { ...other.metadata, name: "w-us-dfw-1" } };
    const deployment = aDeployment();
    const facts = { deployments: [deployment], instances: [...instancesIn(deployment, "R"), taken] };
    expect(stepsOf({ facts })).toEqual([
      "w-us-dfw kept: ! Instance w-us-dfw-1 exists and is not of this deployment",
    ]);
  });

  it.each<[string, Scene, readonly string[]]>([
    ["no deployment, as its Network may be missing", {}, []],
    [
      "no change of one, as its Network may be missing",
      { states: "R R", image: "app:2" },
      ["w-us-dfw kept:"],
    ],
    [
      "no deletion of one that no placement names",
      { states: "R", placements: [] },
      ["w-us-dfw kept: ! STOP"],
    ],
    ["no Instance, as it may wait for its network", { states: "R" }, ["w-us-dfw kept: ! STOP"]],
  ])("C22 without the networks there is %s", (_name, scene, expected) => {
    const stop = "what comes next is not known (SourceNotRead)";
    const facts = { networks: "unknown", unread: [networksUnread] } as const;
    expect(stepsOf({ ...scene, facts })).toEqual(expected.map((it) => it.replace("STOP", stop)));
  });

  it.each<[string, Scene, readonly string[]]>([
    ["creates nothing", {}, ["w-us-dfw created: ! STOP"]],
    ["takes nothing down that is Ready", { states: "R R", image: "app:2" }, ["w-us-dfw changed: ! STOP"]],
    [
      "replaces what is not Ready, and creates nothing",
      { states: "R N", image: "app:2" },
      ["w-us-dfw changed: -1 ! STOP"],
    ],
    [
      "removes what is too much",
      { states: "R R", placements: [placement("us", ["DFW"], 1)] },
      ["w-us-dfw changed: -1"],
    ],
  ])("C22 without the quota service it %s", (_name, scene, expected) => {
    const stop = "what comes next is not known (SourceNotRead)";
    const facts = { spec: withQuota, unread: [quotaUnread] };
    expect(stepsOf({ ...scene, facts })).toEqual(expected.map((it) => it.replace("STOP", stop)));
  });

  it("is bounded", () => {
    const workload = aWorkload({ placements: [placement("us", ["DFW"], 3)], image: "app:2" });
    const deployment = aDeployment();
    const facts = factsOf({ deployments: [deployment], instances: instancesIn(deployment, "R R R") });
    const [found] = forecastWorkload(workload, facts, 3).deployments;
    expect(found?.steps.map((it) => it.do)).toEqual(["roll", "delete"]);
    expect(found?.stops).toBe("the rest is not foreseen: there are too many steps");
  });
});

describe("the text", () => {
  it("shows order, size and claims of a new Workload", () => {
    const found = forecast({ facts: { spec: withQuota } });
    expect(formatForecast({ ...found, isNew: true }, plain)).toBe(`Workload default/w (new)

us in DFW: w-us-dfw is created
  1.   + w-us-dfw-0   1 vCPU, 2048 MiB   needs a ResourceClaim
  2.   + w-us-dfw-1   1 vCPU, 2048 MiB   needs a ResourceClaim

Instances: 2 to create, one after the other in each city. Quota: +2 Instances, +2 vCPUs, +4096 MiB.
`);
  });

  it("shows a roll together with what is too much", () => {
    const found = forecast({ states: "R R", image: "app:2", placements: [placement("us", ["DFW"], 1)] });
    expect(formatForecast(found, plain)).toBe(`Workload default/w

us in DFW: w-us-dfw is changed
  1.   - w-us-dfw-1   1 vCPU, 2048 MiB
  2.   ~ w-us-dfw-0   1 vCPU, 2048 MiB

Instances: 1 to roll, 1 to delete, one after the other in each city. Quota: -1 Instances, -1 vCPUs, -2048 MiB.
`);
    expect([found.needsClaims, isChanging(found)]).toEqual([false, true]);
  });

  it("C22 says what was not read, and neither that nothing changes nor what would be created", () => {
    const facts = { networks: "unknown", unread: [networksUnread, quotaUnread] } as const;
    expect(formatForecast(forecast({ facts }), plain)).toBe(`Workload default/w
! SourceNotRead: networks: locations may not be listed
! SourceNotRead: quota: connection refused

What follows is not known.
`);
    const some = forecast({
      states: "R R",
      placements: [placement("us", ["DFW"], 1)],
      facts: { unread: [quotaUnread] },
    });
    expect(formatForecast(some, plain)).toMatch(/^Instances: 1 to delete, .* The rest is not known\.\n$/m);
  });

  it("says that nothing changes", () => {
    const found = forecast({ states: "R R" });
    expect(formatForecast(found, plain)).toBe("Workload default/w\n\nNo changes.\n");
    expect(isChanging(found)).toBe(false);
  });

  it("says which city has no Location, and shortens a long list", () => {
    const found = forecast({ placements: [placement("us", ["NYC"], 1), placement("eu", ["DFW"], 1000)] });
    const text = formatForecast(found, plain);
    expect(text).toContain('! no Location serves city "NYC" of placement "us"\n');
    expect(text).toContain("  20.   + w-eu-dfw-19   1 vCPU, 2048 MiB\n  … and 980 more steps\n");
  });
});
