import type { KubeObject, Resource } from "@berth/kube";
import { createVirtualClock, type VirtualClock } from "@berth/runtime";
import { beforeEach, describe, expect, it } from "vitest";
import { gates } from "../api/keys.ts";
import {
  locations,
  networkBindings,
  networkContexts,
  networks,
  subnetClaims,
  subnets,
} from "../api/networking.ts";
import { workloadDeployments } from "../api/workload.ts";
import { aDeployment, anInstance, aTemplate, gated } from "../deployment/testing/fixtures.ts";
import { fleetKind } from "../fleet/document.ts";
import { LaggingCache, viewsOver } from "../testing/lagging-views.ts";
import { ObjectServer } from "../testing/object-server.ts";
import { isServedBeside, NetworkStep } from "./network-step.ts";
import type { FleetViews } from "./reads.ts";

/** What an informer knows of its kind. */
interface Reading {
  synced: boolean;
  absent: boolean;
  refusal: string | undefined;
}

const read: Reading = { synced: true, absent: false, refusal: undefined };
const notServed: Reading = { synced: false, absent: true, refusal: undefined };
const refused: Reading = { synced: false, absent: true, refusal: "networkbindings is forbidden" };

/** The caches of a fleet on a model of the API server. They show all at once. */
class Networks {
  readonly clock: VirtualClock = createVirtualClock();
  readonly server = new ObjectServer(() => this.clock.now());
  readonly step: NetworkStep;
  readonly views: FleetViews;
  readonly #caches = new Map<string, LaggingCache & Partial<Reading>>();
  readonly #asked = new Set<string>();

  constructor(spec: object = {}, home?: string) {
    const fleet = fleetKind.spec.parse({ mode: "single", ...spec });
    this.views = viewsOver(
      (resource, options) => {
        const cache = new LaggingCache(this.server, resource, options);
        this.#caches.set(resource.plural, cache);
        return cache;
      },
      {
        clock: this.clock,
        fleet,
        onKey: ({ of, key }, changed) => {
          if (of === "deployments" && changed !== "deployments") this.#asked.add(key.name);
        },
      },
      () => this.step,
    );
    this.step = new NetworkStep({ views: this.views, fleet: { spec: fleet }, clock: this.clock, home });
  }

  set({ plural }: Resource, reading: Reading): void {
    const cache = this.#caches.get(plural);
    for (const [name, value] of Object.entries(reading))
      Object.defineProperty(cache, name, { value, configurable: true });
  }

  /** Names of the deployments that the changes since the last time ask for. */
  asked(): readonly string[] {
    this.#asked.clear();
    for (const cache of this.#caches.values()) cache.see();
    return [...this.#asked].sort();
  }

  add<T extends KubeObject>(resource: Resource<T>, object: T): void {
    this.server.create(resource, object);
  }

  edit(resource: Resource, name: string, body: object, subresource?: string): void {
    this.server.patch(resource, { name }, { type: "merge", body }, subresource);
  }
}

const KINDS: readonly Resource[] = [locations, networks, networkContexts, subnetClaims, subnets];

it.each([
  ["on", "Auto", read, read],
  ["off", "Auto", notServed, notServed],
  ["unknown", "On", notServed, notServed],
  ["unknown, as the server refuses the question,", "Auto", refused, notServed],
  ["unknown, as not all is read,", "Auto", read, { ...notServed, absent: false }],
  ["unknown, as the API is gone,", "Auto", { ...read, absent: true }, read],
  ["unknown, as a permission was taken,", "Auto", { ...read, refusal: "forbidden" }, read],
  ["unknown, as a permission for others was taken,", "Auto", read, { ...read, refusal: "forbidden" }],
] as const)("R28 networks are %s with %s", (expected, networking, bindings, others) => {
  const world = new Networks({ networking });
  world.set(networkBindings, bindings);
  for (const kind of KINDS) world.set(kind, others);
  expect(world.step.state).toBe(expected.split(",")[0]);
});

describe("what cannot be read", () => {
  it("is said once it lasts, kind by kind, and the deployment waits with it", async () => {
    const world = new Networks();
    world.set(subnets, notServed);
    world.set(locations, refused);
    world.set(networks, { ...notServed, absent: false });
    expect([world.step.unread(), world.step.of(aDeployment())]).toEqual([undefined, undefined]);
    await world.clock.advance(9_999);
    expect(world.step.unread()).toBeUndefined();
    await world.clock.advance(1);
    const message =
      "Berth cannot read the networks: locations (forbidden), networks (not read yet), subnets (not served)";
    const blocked = { reason: "NetworksNotRead", message };
    expect(world.step.of(aDeployment())).toEqual({ ready: false, blocked, create: [] });
    for (const kind of [locations, networks, subnets]) world.set(kind, read);
    expect(world.step.of(aDeployment())?.blocked?.reason).toBe("NoMatchingLocation");
    expect(world.step.unread()).toBeUndefined();
    // What is short after that is short again.
    world.set(subnets, refused);
    expect(world.step.unread()).toBeUndefined();
  });

  it("is nothing where the cluster has no networks", async () => {
    const world = new Networks();
    for (const kind of [networkBindings, ...KINDS]) world.set(kind, notServed);
    world.step.unread();
    await world.clock.advance(60_000);
    expect(world.step.unread()).toBeUndefined();
    expect(world.step.of(aDeployment())).toEqual({ ready: true, create: [] });
  });
});

it("B13 networks that are not served any more open no gate: only the Fleet can switch them off", () => {
  const world = new Networks();
  const deployment = aDeployment();
  world.add(workloadDeployments, deployment);
  world.asked();
  for (const kind of [networkBindings, ...KINDS]) world.set(kind, notServed);
  expect(world.step.state).toBe("off");
  const waiting = gated(anInstance(deployment, 0), gates.network);
  expect(world.step.seenBy(waiting)).toEqual({ is: "on", isReady: false });
});

describe("a Location", () => {
  const at = (namespace: string, name: string, city: string) => ({
    metadata: { namespace, name },
    spec: { topology: { "topology.datum.net/city-code": city } },
  });

  it("of a namespace that the Fleet does not list serves no city, and is named", () => {
    const world = new Networks({}, "berth-system");
    world.add(locations, at("berth-system", "dfw", "DFW"));
    world.add(locations, at("tenant", "ord", "ORD"));
    world.asked();
    expect(world.step.cities()).toEqual(["DFW"]);
    expect(world.step.cityNote("ORD")).toMatch(/Location tenant\/ord does not count/);
    expect(world.step.cityNote("DFW")).toBe("");
    const { blocked, location } = world.step.of(aDeployment({ city: "ORD" })) ?? {};
    expect([location, blocked?.reason]).toEqual([undefined, "NoMatchingLocation"]);
    expect(world.step.of(aDeployment())?.location).toEqual({ namespace: "berth-system", name: "dfw" });
  });
});

describe("A change of the networks", () => {
  let world: Networks;
  const spec = {
    subnetClass: "private",
    location: { namespace: "default", name: "dfw" },
    ipFamily: "IPv4",
  } as const;
  beforeEach(() => {
    world = new Networks();
    const metadata = { namespace: "default" };
    for (const [name, city, network] of [
      ["a-us-dfw", "DFW", "one"],
      ["b-us-ord", "ORD", "two"],
    ] as const) {
      const template = aTemplate();
      const networkInterfaces = [{ network: { name: network } }];
      world.add(
        workloadDeployments,
        aDeployment({ name, city, template: { ...template, spec: { ...template.spec, networkInterfaces } } }),
      );
      const topology = { "topology.datum.net/city-code": city };
      world.add(locations, { metadata: { ...metadata, name: city.toLowerCase() }, spec: { topology } });
      world.add(networks, { metadata: { ...metadata, name: network }, spec: {} });
      world.add(networkBindings, { metadata: { ...metadata, name: `${name}-net-0` } });
      world.edit(
        networkBindings,
        `${name}-net-0`,
        { status: { networkContextRef: { ...metadata, name: `ctx-${city}` } } },
        "status",
      );
      world.add(networkContexts, { metadata: { ...metadata, name: `ctx-${city}` } });
      world.add(subnetClaims, {
        metadata: { ...metadata, name: `claim-${city}` },
        spec: { ...spec, networkContext: { name: `ctx-${city}` } },
      });
      world.edit(
        subnetClaims,
        `claim-${city}`,
        { status: { subnetRef: { name: `subnet-${city}` } } },
        "status",
      );
      world.add(subnets, { metadata: { ...metadata, name: `subnet-${city}` } });
    }
    world.asked();
  });

  const CHANGES: readonly (readonly [string, Resource, string])[] = [
    ["Location", locations, "dfw"],
    ["Network", networks, "one"],
    ["NetworkBinding", networkBindings, "a-us-dfw-net-0"],
    ["NetworkContext", networkContexts, "ctx-DFW"],
    ["SubnetClaim", subnetClaims, "claim-DFW"],
    ["Subnet", subnets, "subnet-DFW"],
  ];

  it.each(CHANGES)(
    "of a %s leads to the deployments that it concerns, and its labels to none",
    (_, kind, name) => {
      world.edit(kind, name, { metadata: { labels: { theirs: "x" }, annotations: { theirs: "y" } } });
      expect(world.asked()).toEqual([]);
      world.edit(kind, name, { spec: { changed: true } });
      expect(world.asked()).toEqual(["a-us-dfw"]);
      world.server.delete(kind, { name });
      expect(world.asked()).toEqual(["a-us-dfw"]);
    },
  );

  it("of a Location leads to no deployment that has another one, until that one is gone or does not count", async () => {
    world = new Networks({}, "berth-system");
    await world.clock.advance(0);
    const place = (namespace: string, name: string, city = "DFW") =>
      world.add(locations, {
        metadata: { namespace, name },
        spec: { topology: { "topology.datum.net/city-code": city } },
      });
    const located = (name: string, location: object): void => {
      world.add(workloadDeployments, aDeployment({ name, city: "DFW" }));
      world.edit(workloadDeployments, name, { status: { location } }, "status");
    };
    place("berth-system", "own");
    located("has-own", { namespace: "berth-system", name: "own" });
    world.add(workloadDeployments, aDeployment({ name: "has-none", city: "DFW" }));
    located("has-gone", { namespace: "berth-system", name: "gone" });
    place("tenant", "old");
    located("has-ignored", { namespace: "tenant", name: "old" });
    world.asked();
    place("tenant", "flood");
    expect(world.asked()).toEqual(["has-gone", "has-ignored", "has-none"]);
    const servedBeside = (namespace: string, name: string): boolean =>
      isServedBeside(world.views, { metadata: { namespace, name } }, "DFW", world.step.namespaces);
    expect([servedBeside("tenant", "flood"), servedBeside("berth-system", "own")]).toEqual([true, false]);
    world.server.delete(locations, { name: "own" });
    expect(world.asked()).toEqual(["has-gone", "has-ignored", "has-none", "has-own"]);
    world.server.delete(locations, { name: "flood" });
    expect(world.asked()).toEqual(["has-gone", "has-ignored", "has-none", "has-own"]);
  });

  it("that gives a NetworkBinding another owner leads to its deployment", () => {
    const owner = { apiVersion: "v1", kind: "Other", name: "x", uid: "x", controller: true };
    world.edit(networkBindings, "a-us-dfw-net-0", { metadata: { ownerReferences: [owner] } });
    expect(world.asked()).toEqual(["a-us-dfw"]);
  });

  it("that gives a Location another city leads to both", () => {
    world.edit(locations, "dfw", { spec: { topology: { "topology.datum.net/city-code": "ORD" } } });
    expect(world.asked()).toEqual(["a-us-dfw", "b-us-ord"]);
  });

  it("leads from a claim with Berth's name for another context to the deployment that has to use it", () => {
    world.add(subnetClaims, {
      metadata: { namespace: "default", name: "ctx-DFW-0" },
      spec: { ...spec, networkContext: { name: "other" } },
    });
    expect(world.asked()).toEqual(["a-us-dfw"]);
  });

  it("is followed by a decision on the objects that lead from the deployment, and it is ready with them", () => {
    const deployment = world.server.get(workloadDeployments, { name: "a-us-dfw" });
    const owner = {
      apiVersion: "compute.datumapis.com/v1alpha",
      kind: "WorkloadDeployment",
      controller: true,
    };
    const ownerReferences = [{ ...owner, name: "a-us-dfw", uid: deployment.metadata?.uid ?? "" }];
    world.edit(networkBindings, "a-us-dfw-net-0", {
      metadata: { ownerReferences },
      spec: { network: { name: "one" }, location: spec.location },
    });
    const ready = { conditions: [{ type: "Ready", status: "True", reason: "Ready", message: "" }] };
    for (const [what, kind, name] of CHANGES.slice(2)) {
      world.asked();
      expect(world.step.of(deployment)?.ready, `before the ${what}`).toBe(false);
      world.edit(kind, name, { status: ready }, "status");
    }
    world.asked();
    expect(world.step.of(deployment)).toMatchObject({ ready: true, create: [] });
  });
});
