import { describe, expect, it } from "vitest";
import { anInstance, aTemplate } from "../../deployment/testing/fixtures.ts";
import { aCell, aFound, aPlacement, going, onHub } from "../testing/fixtures.ts";
import {
  copy,
  copyView,
  found,
  instance,
  none,
  there,
  told,
  unknown,
  withGates,
  withMetadata,
} from "../testing/instances.ts";
import { type CopyView, decideCopy } from "./copy.ts";

describe("2.8 the copy of an Instance on the hub", () => {
  it("has a status that a cell cannot fill the hub with", () => {
    const long = "x".repeat(100_000);
    const condition = { type: "Ready", status: "True", reason: "Ready", message: long } as never;
    const networkInterfaces = [{ assignments: { networkIP: long } }];
    const status = { conditions: Array.from({ length: 1_000 }, () => condition), networkInterfaces };
    const { create } = decideCopy({ ...copyView, instance: there({ ...instance, status }) });
    expect(create?.status?.conditions).toHaveLength(32);
    expect(JSON.stringify(create?.status).length).toBeLessThan(64 * 1024);
  });

  it.each<[string, Partial<CopyView>, string]>([
    ["is made", {}, "create"],
    ["H19 is made once", { copy }, ""],
    ["has the status of the cell", { copy: { ...copy, status: {} } }, "status"],
    [
      "has its labels restored, and keeps those of others",
      { copy: withMetadata(copy, { labels: { theirs: "x" } }) },
      "patch",
    ],
    [
      "is made anew for a new Instance",
      { copy, instance: there(withMetadata(instance, { uid: "new" })) },
      "delete",
    ],
    [
      "is made anew for another spec",
      {
        copy,
        instance: there(anInstance(aFound(aCell("a"), { template: aTemplate("app:9") }).deployment, 0)),
      },
      "delete",
    ],
    [
      "H19 keeps its place when a gate opens",
      { copy: withGates(copy, "Network", "Quota"), instance: there(withGates(instance, "Quota")) },
      "patch",
    ],
    [
      "is made anew where a gate is closed again, as a spec takes none",
      { copy: withGates(copy), instance: there(withGates(instance, "Quota")) },
      "delete",
    ],
    [
      "is made anew for another deployment of the hub",
      { copy, hubDeployment: onHub({ metadata: { uid: "new" } }) },
      "delete",
    ],
    ["goes with the Instance", { copy, instance: none }, "delete"],
    ["8.8 stays while the cell is away", { copy, instance: unknown }, ""],
    ["H16 is not made without a deployment", { hubDeployment: undefined }, ""],
    ["is not made under one that is being deleted", { hubDeployment: onHub({ metadata: going }) }, ""],
    [
      "is not made for a deployment that is placed elsewhere",
      { hubDeployment: onHub({ placed: aPlacement("b") }) },
      "",
    ],
    [
      "is not made for an older epoch",
      { hubDeployment: onHub({ placed: aPlacement("a", { epoch: 2 }) }) },
      "",
    ],
    ["is not made for another source", { hubDeployment: onHub({ source: "other" }) }, ""],
    ["is not made for a deployment that this hub did not sign", { found: undefined }, ""],
    [
      "is not made for an ordinal of other cells",
      { instance: there(anInstance(found.deployment, 1000)) },
      "",
    ],
    [
      "is not made for an Instance that the deployment does not own",
      { instance: there(withMetadata(instance, { ownerReferences: [] })) },
      "",
    ],
    [
      "is not made for the name of another deployment",
      { instance: there(withMetadata(instance, { name: "other-0" })) },
      "",
    ],
    ["goes when its deployment moved", { copy, hubDeployment: onHub({ placed: aPlacement("b") }) }, "delete"],
  ])("%s", (_, view, expected) => expect(told(decideCopy({ ...copyView, ...view }))).toBe(expected));

  it("has its identity from the hub, whatever the cell says", () => {
    const forged = withMetadata(instance, {
      labels: { "meta.datumapis.com/upstream-cluster-name": "cluster-shop", x: "y" },
    });
    const { metadata } = decideCopy({ ...copyView, instance: there(forged) }).create ?? {};
    expect(metadata?.labels).toEqual({
      ...copyView.namespaceLabels,
      "compute.datumapis.com/workload-uid": "uid-w",
      "compute.datumapis.com/workload-deployment-uid": "wd-a",
      "compute.datumapis.com/workload-deployment-name": "w-us-dfw",
      "compute.datumapis.com/instance-index": "0",
      "compute.datumapis.com/city-code": "DFW",
      "compute.datumapis.com/workload-name": "w",
      "compute.datumapis.com/placement-name": "us",
    });
    expect(metadata?.ownerReferences).toMatchObject([{ uid: "hub-wd", controller: true }]);
    expect(metadata?.ownerReferences?.[0]).not.toHaveProperty("blockOwnerDeletion");
  });
});
