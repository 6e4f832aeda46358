import type { KubeObject } from "@berth/kube";
import { clusterName, type Informer } from "@berth/runtime";
import { expect, it } from "vitest";
import { fleetKind } from "../fleet/document.ts";
import type { Caches, NetworkCaches } from "./caches.ts";
import { NetworkStep } from "./network-step.ts";

const cluster = clusterName("local");
const read = { synced: true, absent: false, refusal: undefined };
const notServed = { synced: false, absent: true, refusal: undefined };
const refused = { synced: false, absent: true, refusal: "networkbindings is forbidden" };

it.each([
  ["on", "Auto", read, read],
  ["off", "Auto", notServed, notServed],
  ["unknown", "On", notServed, notServed],
  ["unknown, as the server refuses the question,", "Auto", refused, notServed],
  ["unknown, as not all is read,", "Auto", read, { ...notServed, absent: false }],
  ["unknown, as the API is gone,", "Auto", { ...read, absent: true }, read],
] as const)("R28 networks are %s with %s", (expected, networking, bindings, others) => {
  const of = (seen: object) => seen as Informer<KubeObject>;
  const names = ["locations", "networks", "contexts", "subnetClaims", "subnets"] as const;
  const caches = {
    networking: {
      ...Object.fromEntries(names.map((name) => [name, of(others)])),
      bindings: of(bindings),
    } as unknown as NetworkCaches,
  } as Caches;
  const spec = fleetKind.spec.parse({ mode: "single", networking });
  expect(new NetworkStep(caches, spec, cluster).state).toBe(expected.split(",")[0]);
});
