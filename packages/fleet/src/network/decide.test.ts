import type { Condition } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type {
  Location,
  Network,
  NetworkBinding,
  NetworkContext,
  Subnet,
  SubnetClaim,
} from "../api/networking.ts";
import type { LocationReference, WorkloadDeployment } from "../api/workload.ts";
import { fleetKind } from "../fleet/document.ts";
import { decideNetwork, failedBinding, type NetworkView } from "./decide.ts";
import { type LocationNamespaces, locationNamespaces } from "./location.ts";

const namespace = "ns-u";
const dfw: LocationReference = { namespace: "infra", name: "dfw-1" };
const ready = (status: "True" | "False" | "Unknown", reason = "Ready", message = ""): Condition => ({
  type: "Ready",
  status,
  reason,
  message,
  lastTransitionTime: "2026-01-01T00:00:00Z",
});
const isReady = { conditions: [ready("True")] };
const failure = ready("False", "NetworkFailedToCreate", "no addresses left");

const deploymentOn = (...names: readonly string[]): WorkloadDeployment => ({
  metadata: { namespace, name: "w-us-dfw", uid: "wd-1" },
  spec: {
    workloadRef: { name: "w", uid: "w-1" },
    placementName: "us",
    cityCode: "DFW",
    template: {
      spec: {
        runtime: { resources: { instanceType: "datumcloud/d1-standard-2" } },
        networkInterfaces: names.map((name) => ({ network: { name } })),
      },
    },
    scaleSettings: { minReplicas: 1 },
  },
});
const deployment = deploymentOn("default");

const location = (name: string, city = "DFW"): Location => ({
  metadata: { namespace: "infra", name },
  spec: { topology: { "topology.datum.net/city-code": city } },
});
const owner = {
  apiVersion: "compute.datumapis.com/v1alpha",
  kind: "WorkloadDeployment",
  name: "w-us-dfw",
  uid: "wd-1",
  controller: true,
  blockOwnerDeletion: true,
};
const binding = (status: NetworkBinding["status"], at = 0, network = "default"): NetworkBinding => ({
  metadata: { namespace, name: `w-us-dfw-net-${at}`, ownerReferences: [owner] },
  spec: { network: { name: network }, location: dfw },
  ...(status && { status }),
});
const bound = binding({ ...isReady, networkContextRef: { namespace, name: "ctx" } });
const context: NetworkContext = {
  metadata: { namespace, name: "ctx", uid: "ctx-1" },
  spec: { network: { name: "default" }, location: dfw },
  status: isReady,
};
const network = (...ipFamilies: readonly ("IPv4" | "IPv6")[]): Network => ({
  metadata: { namespace, name: "default" },
  spec: { ipFamilies },
});
const claim = (
  status: SubnetClaim["status"],
  spec: Partial<NonNullable<SubnetClaim["spec"]>> = {},
  name = "ctx-0",
): SubnetClaim => ({
  metadata: { namespace, name },
  spec: { subnetClass: "private", networkContext: { name: "ctx" }, location: dfw, ipFamily: "IPv4", ...spec },
  ...(status && { status }),
});
const claimed = claim({ ...isReady, subnetRef: { name: "s" } });
const subnet: Subnet = { metadata: { namespace, name: "s" }, status: isReady };

/** A deployment whose network is complete, with what the case changes. */
const decide = (change: Partial<NetworkView> = {}) =>
  decideNetwork({
    deployment,
    locations: [location("dfw-1"), location("ord-1", "ORD")],
    bindings: [bound],
    contexts: [context],
    networks: [],
    subnetClaims: [claimed],
    subnets: [subnet],
    ...change,
  });
const waiting = (message: string) => ({
  ready: false,
  location: dfw,
  blocked: { reason: "NetworkProvisioning", message },
});
const newBinding = (at: number, name: string) => ({
  apiVersion: "networking.datumapis.com/v1alpha",
  kind: "NetworkBinding",
  metadata: { namespace, name: `w-us-dfw-net-${at}`, ownerReferences: [owner] },
  spec: { network: { name }, location: dfw },
});

describe("the Location of a deployment", () => {
  it("R16 A18 is missing while no Location has the city, and found once one does", () => {
    const message = 'No Location matches city code "DFW"';
    expect(decide({ locations: [location("a", "dfw"), location("b", "ORD")], bindings: [] })).toEqual({
      ready: false,
      blocked: { reason: "NoMatchingLocation", message },
      create: [],
    });
    expect(decide().location).toEqual(dfw);
    const { spec: _spec, ...bare } = deployment;
    expect(decide({ deployment: bare }).blocked?.message).toBe('No Location matches city code ""');
  });

  it("is ambiguous where several have the city, and the message names the first in order", () => {
    const { location: none, ...rest } = decide({ locations: ["b", "c", "a"].map((name) => location(name)) });
    expect(none).toBeUndefined();
    expect(rest).toEqual({
      ready: false,
      blocked: {
        reason: "AmbiguousServingLocation",
        message: '3 Locations have city code "DFW", among them infra/a and infra/b. Keep one of them.',
      },
      create: [],
    });
  });

  it.each<[string, readonly Location[], string]>([
    ["when another one is added", [location("a"), location("dfw-1")], "dfw-1"],
    ["alone as well", [location("dfw-1")], "dfw-1"],
    ["not when it has another city now", [location("a"), location("dfw-1", "ORD")], "a"],
  ])("stays the one that the deployment has, %s", (_, locations, name) => {
    const status = { replicas: 0, currentReplicas: 0, desiredReplicas: 0, readyReplicas: 0, location: dfw };
    expect(decide({ locations, deployment: { ...deployment, status } }).location).toEqual({ ...dfw, name });
  });

  it("is found among objects of which half is missing", () => {
    const topology = { "topology.datum.net/city-code": "DFW" };
    const locations = [{}, { spec: {} }, { metadata: { name: "x" }, spec: { topology: {} } }];
    expect(decide({ locations: [...locations, location("dfw-1")] }).location).toEqual(dfw);
    expect(decide({ locations: [{ spec: { topology } }], bindings: [] }).location).toEqual({
      name: "",
      namespace: "",
    });
  });
});

describe("the network of a deployment", () => {
  it("is ready once bindings, contexts, claims and subnets are", () => {
    expect(decide()).toEqual({ ready: true, location: dfw, create: [] });
  });

  it("R28 is ready where the cluster has no networks", () => {
    expect(decideNetwork(undefined)).toEqual({ ready: true, create: [] });
  });

  it("is ready without interfaces", () => {
    expect(decide({ deployment: deploymentOn(), bindings: [] })).toMatchObject({ ready: true, create: [] });
  });

  it("gets a NetworkBinding for each interface, all at once", () => {
    const { create, ...rest } = decide({ deployment: deploymentOn("default", "other"), bindings: [] });
    expect(rest).toEqual(waiting("NetworkBinding ns-u/w-us-dfw-net-0 is being created"));
    expect(create.map(({ resource, body }) => [resource.plural, body])).toEqual([
      ["networkbindings", newBinding(0, "default")],
      ["networkbindings", newBinding(1, "other")],
    ]);
  });

  it.each<[string, Partial<NetworkView>, string]>([
    [
      "the binding is new",
      { bindings: [binding(undefined)] },
      "NetworkBinding ns-u/w-us-dfw-net-0 is not ready",
    ],
    [
      "the binding is not ready",
      { bindings: [binding({ conditions: [ready("False", "Pending", "soon")] })] },
      "NetworkBinding ns-u/w-us-dfw-net-0 is not ready: soon",
    ],
    [
      "the binding is ready without a context",
      { bindings: [binding(isReady)] },
      "NetworkBinding ns-u/w-us-dfw-net-0 has no NetworkContext yet",
    ],
    [
      "the binding is of an earlier deployment",
      {
        bindings: [
          { ...bound, metadata: { ...bound.metadata, ownerReferences: [{ ...owner, uid: "old" }] } },
        ],
      },
      "NetworkBinding ns-u/w-us-dfw-net-0 belongs to another object. Berth waits until it is gone.",
    ],
    [
      "the binding is of no object",
      { bindings: [{ ...bound, metadata: { namespace, name: "w-us-dfw-net-0" } }] },
      "NetworkBinding ns-u/w-us-dfw-net-0 belongs to another object. Berth waits until it is gone.",
    ],
    [
      "the deployment does not control the binding",
      {
        bindings: [
          { ...bound, metadata: { ...bound.metadata, ownerReferences: [{ ...owner, controller: false }] } },
        ],
      },
      "NetworkBinding ns-u/w-us-dfw-net-0 belongs to another object. Berth waits until it is gone.",
    ],
    [
      "the binding is for another Location",
      {
        bindings: [{ ...bound, spec: { network: { name: "default" }, location: { ...dfw, name: "dfw-2" } } }],
      },
      "NetworkBinding ns-u/w-us-dfw-net-0 is for another Location. Delete it, so that Berth can create it anew.",
    ],
    [
      "the binding is for nothing",
      { bindings: [{ metadata: bound.metadata ?? {}, ...(bound.status && { status: bound.status }) }] },
      "NetworkBinding ns-u/w-us-dfw-net-0 is for another Location. Delete it, so that Berth can create it anew.",
    ],
    ["the context is absent", { contexts: [] }, "NetworkContext ns-u/ctx does not exist yet"],
    [
      "the context is not ready",
      { contexts: [{ ...context, status: { conditions: [ready("Unknown")] } }] },
      "NetworkContext ns-u/ctx is not ready",
    ],
    [
      "the claim is not ready",
      { subnetClaims: [claim({ subnetRef: { name: "s" } })] },
      "SubnetClaim ns-u/ctx-0 is not ready",
    ],
    [
      "H20 the claim is ready without a subnet",
      { subnetClaims: [claim(isReady)] },
      "SubnetClaim ns-u/ctx-0 has no Subnet yet",
    ],
    [
      "the subnet is in another namespace",
      { subnets: [{}, { ...subnet, metadata: { namespace: "other", name: "s" } }] },
      "Subnet ns-u/s does not exist yet",
    ],
    ["the subnet is absent", { subnets: [] }, "Subnet ns-u/s does not exist yet"],
    ["the subnet is not ready", { subnets: [{ ...subnet, status: {} }] }, "Subnet ns-u/s is not ready"],
  ])("waits while %s", (_, change, message) => {
    expect(decide(change)).toEqual({ ...waiting(message), create: [] });
  });

  it("is ready with further owners of a binding, and with what is not its own", () => {
    const ownerReferences = [{ ...owner, controller: false, uid: "other" }, owner];
    const bindings = [{}, { ...bound, metadata: { ...bound.metadata, ownerReferences } }];
    const others = { networks: [{}], contexts: [{}, context], subnetClaims: [{}, claimed] };
    expect(decide({ bindings, ...others })).toMatchObject({ ready: true });
  });

  it("is asked for, under what names the deployment has", () => {
    const { metadata: _metadata, ...nameless } = deployment;
    const { create } = decide({ deployment: nameless, bindings: [] });
    const ownerReferences = [{ ...owner, name: "", uid: "" }];
    expect(create[0]?.body.metadata).toEqual({ namespace: "", name: "-net-0", ownerReferences });
    const unowned = { ...bound, metadata: { namespace: "", name: "-net-0", ownerReferences } };
    expect(decide({ deployment: nameless, bindings: [unowned] }).blocked?.message).toBe(
      "NetworkBinding /-net-0 belongs to another object. Berth waits until it is gone.",
    );
  });

  it("A17 shows the binding that failed, before one that is only late", () => {
    const bindings = [binding(undefined), binding({ conditions: [failure] }, 1)];
    expect(decide({ deployment: deploymentOn("default", "default"), bindings })).toMatchObject({
      ready: false,
      blocked: { reason: "NetworkFailedToCreate", message: "no addresses left" },
    });
  });
});

describe("the addresses of a context", () => {
  const created = (networks: readonly Network[], subnetClaims: readonly SubnetClaim[] = []) =>
    decide({ networks, subnetClaims }).create.map(({ body }) => body);
  const newClaim = (ipFamily: string) => ({
    apiVersion: "networking.datumapis.com/v1alpha",
    kind: "SubnetClaim",
    metadata: {
      namespace,
      name: "ctx-0",
      // The context is not a controller of the claim.
      ownerReferences: [
        { apiVersion: "networking.datumapis.com/v1alpha", kind: "NetworkContext", name: "ctx", uid: "ctx-1" },
      ],
    },
    spec: { subnetClass: "private", networkContext: { name: "ctx" }, location: dfw, ipFamily },
  });

  it.each<[string, readonly Network[], string]>([
    ["IPv4 of an unknown network", [], "IPv4"],
    ["IPv4 of a network that does not say", [network()], "IPv4"],
    ["IPv4 of a network that says nothing", [{ metadata: { namespace, name: "default" } }], "IPv4"],
    ["IPv4 of a network without a list", [{ metadata: { namespace, name: "default" }, spec: {} }], "IPv4"],
    [
      "IPv4 where only another namespace has such a network",
      [{ ...network("IPv6"), metadata: { namespace: "other", name: "default" } }],
      "IPv4",
    ],
    ["the first family of the network", [network("IPv6", "IPv4")], "IPv6"],
  ])("are claimed in %s", (_, networks, family) => {
    expect(created(networks)).toEqual([newClaim(family)]);
    expect(decide({ networks, subnetClaims: [] }).blocked).toEqual(
      waiting("SubnetClaim ns-u/ctx-0 is being created").blocked,
    );
  });

  it("are claimed for a context that says nothing", () => {
    const { spec: _spec, ...bare } = context;
    expect(decide({ contexts: [bare], subnetClaims: [] }).create.map(({ body }) => body)).toEqual([
      newClaim("IPv4"),
    ]);
  });

  it("do not come from a claim of another namespace", () => {
    const elsewhere = { ...claimed, metadata: { namespace: "other", name: "by-hand" } };
    expect(created([], [elsewhere])).toEqual([newClaim("IPv4")]);
  });

  it("are claimed once for two interfaces", () => {
    const bindings = [bound, binding(bound.status, 1)];
    const { create } = decide({ deployment: deploymentOn("default", "default"), bindings, subnetClaims: [] });
    expect(create.map(({ body }) => body.metadata?.name)).toEqual(["ctx-0"]);
  });

  it.each<[string, SubnetClaim, readonly Network[]]>([
    ["a claim of another name that fits", claim(claimed.status, {}, "by-hand"), []],
    ["a claim of our name, whatever its family", claimed, [network("IPv6")]],
  ])("come from %s", (_, one, networks) => {
    expect(decide({ subnetClaims: [one], networks })).toMatchObject({ ready: true, create: [] });
  });

  it.each<[string, Partial<NonNullable<SubnetClaim["spec"]>>]>([
    ["class", { subnetClass: "public" }],
    ["context", { networkContext: { name: "other" } }],
    ["location", { location: { ...dfw, name: "ord-1" } }],
    ["family", { ipFamily: "IPv6" }],
  ])("do not come from a claim of another %s", (_, spec) => {
    expect(created([], [claim(claimed.status, spec, "by-hand")])).toEqual([newClaim("IPv4")]);
  });
});

describe("the failure that Instances show", () => {
  it.each<[string, readonly NetworkBinding[], Condition | undefined]>([
    ["A17 is the condition of the binding that failed", [bound, binding({ conditions: [failure] })], failure],
    ["is none while a binding is late", [binding({ conditions: [ready("False", "Pending")] })], undefined],
    [
      "is none of a binding that recovered",
      [binding({ conditions: [{ ...failure, status: "True" }] })],
      undefined,
    ],
    ["is none without bindings", [], undefined],
  ])("%s", (_, bindings, condition) => {
    expect(failedBinding(bindings)).toBe(condition);
  });
});

describe("what a tenant may not have", () => {
  const inNamespace = (...namespaces: readonly (string | undefined)[]): WorkloadDeployment => {
    const networks = namespaces.map((of) =>
      of === undefined ? { name: "default" } : { name: "default", namespace: of },
    );
    const made = deploymentOn();
    const { spec } = made;
    if (spec === undefined) return made;
    const template = {
      spec: { ...spec.template.spec, networkInterfaces: networks.map((it) => ({ network: it })) },
    };
    return { ...made, spec: { ...spec, template } };
  };

  it.each([
    ["another namespace", ["other"], undefined],
    ["the namespace of another project", ["other"], "default"],
    ["another namespace, beside its own", [undefined, "other"], "default"],
  ])(
    "S-15 a network of %s is not bound, and neither is any other, and the message has the value",
    (_, namespaces, project) => {
      const asked = inNamespace(...namespaces);
      const found = decide({ deployment: asked, bindings: [], projectNamespace: project });
      expect(found).toMatchObject({ ready: false, create: [], blocked: { reason: "ForeignNetwork" } });
      expect(found.blocked?.message).toContain("in namespace other");
      expect(decide({ deployment: asked, locations: [] }).blocked?.reason).toBe("ForeignNetwork");
    },
  );

  it.each([
    ["its own namespace", namespace, undefined],
    ["no namespace", "", undefined],
    ["the namespace that its project calls default", "default", "default"],
  ])("a network of %s is bound in the own namespace", (_, of, projectNamespace) => {
    const { create } = decide({ deployment: inNamespace(of), bindings: [], projectNamespace });
    expect(create.map(({ body }) => body)).toMatchObject([
      { spec: { network: { name: "default", ...(of !== "" && { namespace }) } } },
    ]);
  });

  it.each([
    ["another network", { name: "other" }, "ns-u/other"],
    ["a network of another namespace", { name: "default", namespace: "other" }, "other/default"],
  ])("a template that has changed is not bound while its binding is for %s", (_, theirs, shown) => {
    const old: NetworkBinding = { ...bound, spec: { network: theirs, location: dfw } };
    const found = decide({ bindings: [old] });
    expect(found).toMatchObject({
      ready: false,
      location: dfw,
      create: [],
      blocked: { reason: "NetworkChanged" },
    });
    expect(found.blocked?.message).toContain(
      `asks for network default, and NetworkBinding ns-u/w-us-dfw-net-0 is for ${shown}.`,
    );
    const ofOthers = { ...old, metadata: { ...old.metadata, ownerReferences: [] } };
    expect(decide({ bindings: [ofOthers] }).blocked?.reason).toBe("NetworkProvisioning");
  });

  it("a binding of the original names the network as its project does, and counts", () => {
    const theirs = { ...bound, spec: { network: { name: "default", namespace: "default" }, location: dfw } };
    expect(decide({ bindings: [theirs], projectNamespace: "default" }).ready).toBe(true);
  });
});

describe("S-15 the namespaces whose Locations count", () => {
  const fleet = (spec: object) => fleetKind.spec.parse({ mode: "single", ...spec });

  it.each<[string, object, string | undefined, LocationNamespaces]>([
    ["in single those of Berth's own", {}, "berth-system", ["berth-system"]],
    ["in single without a namespace all", {}, undefined, undefined],
    ["in a cell all", { mode: "cell", cell: "dfw-01" }, "berth-system", undefined],
    ["those that the Fleet lists", { locations: { namespaces: ["a", "b"] } }, "berth-system", ["a", "b"]],
    ["none if it lists none", { mode: "cell", cell: "c", locations: { namespaces: [] } }, "berth-system", []],
  ])("are %s", (_, spec, home, expected) => {
    expect(locationNamespaces(fleet(spec), home)).toEqual(expected);
  });

  it("leave a Location of others out, and the message names it", () => {
    const evil: Location = { ...location("evil"), metadata: { namespace: "tenant", name: "evil" } };
    const found = decide({ locations: [evil, location("dfw-1")], locationNamespaces: ["infra"] });
    expect(found).toMatchObject({ ready: true, location: dfw });
    const alone = decide({ locations: [evil], locationNamespaces: ["infra"], bindings: [] });
    expect(alone.blocked).toEqual({
      reason: "NoMatchingLocation",
      message:
        'No Location matches city code "DFW" (Location tenant/evil does not count: locations.namespaces of the Fleet lists no namespace tenant)',
    });
  });
});
