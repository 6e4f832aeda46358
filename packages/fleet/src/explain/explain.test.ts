import type { Condition, Pod } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { Instance } from "../api/workload.ts";
import { aCondition, gated, withCondition } from "../deployment/testing/fixtures.ts";
import { claimFor } from "../instance/claim.ts";
import type { QuotaSeen } from "../instance/view.ts";
import { explainInstance, explainWorkload } from "./explain.ts";
import { formatExplanation } from "./show.ts";
import {
  aDeployment,
  aWorkload,
  factsOf,
  instancesIn,
  NOW_MS,
  networksUnread,
  placement,
  plain,
  quotaUnread,
  withQuota,
} from "./testing/facts.ts";

const deployment = aDeployment();
const workload = aWorkload({ placements: [placement("us", ["DFW"], 2)] });
const [first, second] = instancesIn(deployment, "R N") as [Instance, Instance];

const LATER = "2026-01-01T00:01:00Z";
const failing = (type: string, reason: string, message: string): Condition => ({
  ...aCondition(type, "False", reason, message),
  lastTransitionTime: LATER,
});

function podOf(instance: Instance, parts: Pick<Pod, "spec" | "status">): Pod {
  const { name = "", uid = "" } = instance.metadata ?? {};
  const owner = {
    apiVersion: "compute.datumapis.com/v1alpha",
    kind: "Instance",
    name,
    uid,
    controller: true,
  };
  return {
    metadata: { name, namespace: "default", creationTimestamp: LATER, ownerReferences: [owner] },
    ...parts,
  };
}

const running = podOf(first, {
  spec: { containers: [], nodeName: "node-1" },
  status: { phase: "Running", podIP: "10.0.0.1", conditions: [aCondition("Ready", "True")] },
});

const told = (instances: readonly Instance[], parts: Parameters<typeof factsOf>[0] = {}): string =>
  formatExplanation(
    explainWorkload(workload, factsOf({ deployments: [deployment], instances, ...parts })),
    NOW_MS,
    plain,
  );

describe("explain workload", () => {
  it("puts a bad image at the top, with its pod in the tree", () => {
    const message = "Container app has no image app:1: not found";
    const bad = withCondition(
      second,
      failing("Programmed", "ImageUnavailable", message),
      failing("Available", "ImageUnavailable", message),
      failing("Ready", "ImageUnavailable", message),
    );
    const status = { phase: "Pending", containerStatuses: [waiting("ErrImagePull", "not found")] };
    const pending = podOf(second, { spec: { containers: [], nodeName: "node-2" }, status });
    const pods = { "w-us-dfw-0": running, "w-us-dfw-1": pending };
    expect(told([first, bad], { pods })).toMatchInlineSnapshot(`
      "ImageUnavailable: Instance default/w-us-dfw-1: Container app has no image app:1: not found
        since        2026-01-01T00:01:00Z (1m)
        what helps   Correct the image or its pull secret, or push the image. Berth replaces Instances that are not ready as soon as the template of the Workload is corrected.
        next look    on the next change of its pod

      Workload w                                   1/2 ready    us: DFW
      └─ WorkloadDeployment w-us-dfw               1/2 ready    DFW
         ├─ Instance w-us-dfw-0                    ready        on node node-1, 10.0.0.1
         └─ Instance w-us-dfw-1                    not ready    ImageUnavailable: Container app has no image app:1: not found
            ├─ ResourceClaim instance-w-us-dfw-1   not needed   the Fleet has no quota service
            ├─ Network                             not needed   the cluster has no networks
            └─ Pod w-us-dfw-1                      Pending      on node node-2
      "
    `);
  });

  it("says which denial of quota blocks it, and when the claim is looked at again", () => {
    const denied = withCondition(
      gated(second, "Quota"),
      failing("QuotaGranted", "QuotaExceeded", "budget of 1 vCPU is used"),
      failing("Ready", "PendingQuota", "budget of 1 vCPU is used"),
    );
    expect(
      told([first, denied], { spec: withQuota, quotaOf: claimed, pods: { "w-us-dfw-0": running } }),
    ).toMatchInlineSnapshot(`
      "QuotaExceeded: Instance default/w-us-dfw-1: budget of 1 vCPU is used
        since        2026-01-01T00:01:00Z (1m)
        what helps   Raise the budget of the project, or lower minReplicas. Berth asks again by itself.
        next look    on the next change of its claim, and within 14s: an Instance that waits for quota is looked at every 15s at this age

      Workload w                                   1/2 ready     us: DFW
      └─ WorkloadDeployment w-us-dfw               1/2 ready     DFW
         ├─ Instance w-us-dfw-0                    ready         on node node-1, 10.0.0.1
         └─ Instance w-us-dfw-1                    not ready     QuotaExceeded: budget of 1 vCPU is used
            ├─ ResourceClaim instance-w-us-dfw-1   not granted   QuotaExceeded: budget of 1 vCPU is used
            ├─ Network                             not needed    the cluster has no networks
            └─ Pod w-us-dfw-1                      none
      "
    `);
  });

  it("names what Berth does next where nothing blocks", () => {
    expect(told([first], { pods: { "w-us-dfw-0": running } })).toMatchInlineSnapshot(`
      "Workload default/w: nothing blocks it
        next look   now, to create Instance w-us-dfw-1; then on the next change of its Workload, Instances or networks

      Workload w                       1/2 ready   us: DFW
      └─ WorkloadDeployment w-us-dfw   1/2 ready   DFW, create Instance w-us-dfw-1
         └─ Instance w-us-dfw-0        ready       on node node-1, 10.0.0.1
      "
    `);
  });

  it("shows the deployments that are to come", () => {
    expect(told([], { deployments: [] })).toMatchInlineSnapshot(`
      "Workload default/w: nothing blocks it
        next look   now, to create WorkloadDeployment w-us-dfw; then on the next change of its deployments

      Workload w   0/2 ready   us: DFW
      "
    `);
  });

  it.each([
    ["no deployment is created", [], { deployments: [] }],
    ["no Instance is created", [first], {}],
  ])("C22 says that the networks were not read, and %s", (_name, instances, parts) => {
    const text = told(instances, { ...parts, networks: "unknown", unread: [networksUnread] });
    expect(text).toMatch(/^Workload default\/w: nothing that was read blocks it\n/);
    expect(text).toContain("  not known   SourceNotRead: networks: locations may not be listed\n");
    expect(text).not.toContain("create");
  });

  it("C22 says that quota was not read, and nothing of what depends on it", () => {
    const quotaOf = (): QuotaSeen => ({
      is: "read",
      project: "",
      claim: { is: "unknown", because: "connection refused" },
    });
    const held = told(instancesIn(deployment, "Ro R"), { spec: withQuota, quotaOf, unread: [quotaUnread] });
    expect(held).not.toMatch(/delete|a roll waits/);
    const text = told([first, gated(second, "Quota")], { spec: withQuota, quotaOf, unread: [quotaUnread] });
    expect(text).toMatch(/not known +SourceNotRead: quota: connection refused\n/);
    expect(text).toMatch(/next look +on the next change of its claim/);
    expect(text).toMatch(/ResourceClaim instance-w-us-dfw-1 +not read +connection refused\n/);
    expect(text).not.toMatch(/now, to|create/);
  });

  it("leaves claims out where no Fleet says where they are", () => {
    expect(told([first, second], { isGiven: false })).not.toContain("ResourceClaim");
  });

  it("shows those that are not ready first, of many", () => {
    const many = instancesIn(deployment, `${"R ".repeat(35)}N${" R".repeat(4)}`);
    const text = told(many);
    expect(text).toContain("Instance w-us-dfw-35 ");
    expect(text).toMatch(/└─ … 20 more +all ready\n$/);
  });
});

describe("explain instance", () => {
  const explain = (instance: Instance, parts: Parameters<typeof factsOf>[0] = {}): string =>
    formatExplanation(
      explainInstance(instance, factsOf({ deployments: [deployment], ...parts })),
      NOW_MS,
      plain,
    );

  it("says what the network of a gated Instance waits for", () => {
    const waits = withCondition(
      gated(second, "Network"),
      failing("Ready", "SchedulingGatesPresent", "Scheduling gates present: Network"),
    );
    const networks = {
      locations: [],
      bindings: [],
      contexts: [],
      networks: [],
      subnetClaims: [],
      subnets: [],
    };
    expect(explain(waits, { networks })).toMatchInlineSnapshot(`
      "NoMatchingLocation: Instance default/w-us-dfw-1: No Location matches city code "DFW"
        what helps   Create a Location with the city code, or remove the city from the placement.
        next look    on the next change of its network

      Instance w-us-dfw-1                    not ready    SchedulingGatesPresent: Scheduling gates present: Network
      ├─ ResourceClaim instance-w-us-dfw-1   not needed   the Fleet has no quota service
      ├─ Network                             not ready    No Location matches city code "DFW"
      └─ Pod w-us-dfw-1                      none
      "
    `);
  });

  it.each([
    ["SchedulingGatesPresent", "Scheduling gates present: Network"],
    ["NetworkFailedToCreate", "no addresses are left"],
  ])("C22 repeats %s, which is stored, and foresees nothing without the networks", (reason, message) => {
    const waits = withCondition(gated(second, "Network"), failing("Ready", reason, message));
    const text = explain(waits, { networks: "unknown", unread: [networksUnread] });
    expect(text).toMatch(new RegExp(`^${reason}: Instance default/w-us-dfw-1: ${message}\n`));
    expect(text).toMatch(/next look +on the next change of its network\n/);
    expect(text).toMatch(/not known +SourceNotRead: networks: locations may not be listed\n/);
    expect(text).toMatch(/─ Network +not read\n/);
  });

  it("says that Berth has not looked, and what it would do", () => {
    const { status: _, ...fresh } = gated(second, "Quota");
    expect(explain(fresh)).toMatchInlineSnapshot(`
      "Pending: Instance default/w-us-dfw-1: Berth has not looked at it yet
        since        2026-01-01T00:00:00Z (2m)
        what helps   A running Berth must look at it: is there a \`berth run\` with a Fleet?
        next look    now, to report Ready False, PendingProgramming; then on the next change of its pod

      Instance w-us-dfw-1                    not ready    Pending: Berth has not looked at it yet
      ├─ ResourceClaim instance-w-us-dfw-1   not needed   the Fleet has no quota service
      ├─ Network                             not needed   the cluster has no networks
      └─ Pod w-us-dfw-1                      none
      "
    `);
  });

  it("says what the end of an Instance waits for", () => {
    const finalizers = ["example.com/hold", "compute.datumapis.com/instance-controller"];
    const ending = { ...second, metadata: { ...second.metadata, finalizers, deletionTimestamp: LATER } };
    expect(explain(ending)).toMatchInlineSnapshot(`
      "Deleting: Instance default/w-us-dfw-1: it is being deleted
        since        2026-01-01T00:01:00Z (1m)
        what helps   What its finalizers name must be gone.
        next look    on the next change of Finalizers example.com/hold

      Instance w-us-dfw-1                    deleting     Deleting: it is being deleted
      ├─ ResourceClaim instance-w-us-dfw-1   not needed   the Fleet has no quota service
      ├─ Network                             not needed   the cluster has no networks
      └─ Pod w-us-dfw-1                      none
      "
    `);
  });
});

function waiting(reason: string, message: string) {
  const common = { name: "app", image: "app:1", imageID: "", ready: false, restartCount: 0 };
  return { ...common, state: { waiting: { reason, message } } };
}

/** The quota service has denied each claim. */
function claimed(instance: Instance): QuotaSeen {
  const claim = claimFor({ instance, source: "single", rules: withQuota }, "web");
  const conditions = [failing("Granted", "QuotaExceeded", "budget of 1 vCPU is used")];
  return {
    is: "read",
    project: "web",
    claim: { is: "there", value: { ...claim, status: { conditions } } },
  };
}
