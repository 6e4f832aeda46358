/** The oracle of a hub's stories finds each thing that it is there for, and nothing in what is right. */
import { instances, workloadDeployments, workloads } from "@berth/fleet";
import type { KubeObject, Resource } from "@berth/kube";
import { expect, it } from "vitest";
import { forbiddenOfHub, type HubChange, type Where } from "./hub-verdict.ts";

const steps = ["start", "comes", "changes", "rests", "drains", "ends"];
const trial = { steps, rest: "rests", drain: "drains", removal: "ends", isOnlyLife: true };
const going = { deletionTimestamp: "2026-01-01T00:00:00Z" };

function change(step: string, where: HubChange["where"], resource: Resource, more: Partial<HubChange> = {}) {
  const name = resource === workloads ? "w" : "w-us-dfw";
  const object: KubeObject = { metadata: { name, uid: "u" } };
  return { step, where, resource, name, object, before: undefined, gone: false, ...more };
}
const ready = (readyReplicas: number): KubeObject =>
  ({ metadata: { uid: "u" }, status: { readyReplicas } }) as KubeObject;

const at = (step: string, where: Where, name: string, more: Partial<HubChange> = {}): HubChange => {
  const object = { metadata: { uid: name }, status: { conditions: [{ type: "Ready", status: "True" }] } };
  return change(step, where, instances, { name, object, ...more });
};

const made = change("comes", "cell", workloadDeployments);
const counted = change("comes", "cell", workloadDeployments, { object: ready(2) });
const shown = change("comes", "project", workloads, { object: ready(2) });
const says = (step: string, count: number): HubChange =>
  change(step, "project", workloads, { object: ready(count), before: ready(2) });

it.each<[string, readonly HubChange[], readonly string[]]>([
  [
    "what is right",
    [made, counted, shown, says("changes", 2), change("ends", "cell", workloadDeployments, { gone: true })],
    [],
  ],
  [
    "a deletion of what is wanted",
    [made, change("changes", "cell", workloadDeployments, { object: { metadata: { uid: "u", ...going } } })],
    ["w-us-dfw was deleted from the cell and was wanted (changes)"],
  ],
  [
    "a second one",
    [made, change("changes", "cell", workloadDeployments, { object: { metadata: { uid: "v" } } })],
    ["w-us-dfw was made twice in the cell (changes)"],
  ],
  ["a false zero", [counted, shown, says("changes", 0)], ["w says 0 Ready, and at least 2 were (changes)"]],
  [
    "a fall that the cell has told",
    [
      counted,
      shown,
      change("changes", "cell", workloadDeployments, { object: ready(1) }),
      says("changes", 1),
    ],
    [],
  ],
  [
    "a move",
    [
      made,
      at("comes", "cell", "i-0"),
      change("drains", "other-cell", workloadDeployments),
      at("drains", "other-cell", "i-1000"),
      at("drains", "cell", "i-0", { gone: true }),
      change("drains", "cell", workloadDeployments, { gone: true }),
    ],
    [],
  ],
  [
    "a move without enough",
    [
      at("comes", "cell", "i-0"),
      change("drains", "project", workloads, { object: ready(0), before: ready(0) }),
      at("drains", "cell", "i-0", { gone: true }),
    ],
    ["w says 0 of 1 Ready (drains)", "only 0 of 1 are Ready without i-0 (drains)"],
  ],
  [
    "an Instance with two owners",
    [at("comes", "cell", "i-0"), at("drains", "other-cell", "i-0")],
    ["i-0 lives in the cell and the other-cell (drains)"],
  ],
  [
    "a deletion in the cell to which it moves",
    [change("drains", "other-cell", workloadDeployments, { gone: true })],
    ["w-us-dfw was deleted from the other-cell and was wanted (drains)"],
  ],
  [
    "a write at rest",
    [change("rests", "hub", instances)],
    ["instances w-us-dfw changed in the hub, though nothing had happened"],
  ],
])("%s", (_, log, expected) => expect(forbiddenOfHub(log, trial)).toEqual(expected));
