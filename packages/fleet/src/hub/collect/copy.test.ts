import { describe, expect, it } from "vitest";
import { anInstance, aTemplate } from "../../deployment/testing/fixtures.ts";
import { aPlacement, going, onHub } from "../testing/fixtures.ts";
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

const elsewhere = { cell: "b", uid: "uid-b", epoch: 2, start: 1000 };
const [leaving, next] = [
  aPlacement("b", { ...elsewhere, last: 2, leaving: aPlacement("a") }),
  aPlacement("b", { ...elsewhere, last: 2, next: aPlacement("a") }),
];
const older = { instance: there(anInstance(found.deployment, 0, "Ro")) };

describe("2.8 the copy of an Instance on the hub", () => {
  it.each<[string, Partial<CopyView>, string]>([
    ["is made", {}, "create"],
    ["H19 is made once", { copy }, ""],
    ["is made in the cell that it moves to", { hubDeployment: onHub({ placed: next }) }, "create"],
    ["stays in the cell that it leaves", { copy, hubDeployment: onHub({ placed: leaving }) }, ""],
    ["has the status of the cell", { copy: { ...copy, status: {} } }, "status"],
    ["R26 has its labels restored", { copy: withMetadata(copy, { labels: { theirs: "x" } }) }, "patch"],
    [
      "R26 keeps labels of others, and is not written for them",
      { copy: withMetadata(copy, { labels: { ...copy.metadata?.labels, theirs: "x" } }) },
      "",
    ],
    [
      "is made anew for a new Instance",
      { copy, instance: there(withMetadata(instance, { uid: "new" })) },
      "delete",
    ],
    [
      "is made anew for another template",
      { copy, instance: there(anInstance(found.deployment, 0, "Ro")) },
      "delete",
    ],
    [
      "stays as it is where the cell changes a spec, which never happens",
      {
        copy,
        instance: there({
          ...instance,
          spec: { ...instance.spec, runtime: aTemplate("app:9").spec.runtime } as never,
        }),
      },
      "",
    ],
    ["waits for the spec of a template that the hub has no more", older, "read"],
    ["is made with that spec", { ...older, spec: aTemplate("app:0").spec }, "create"],
    [
      "is not made beyond those that are wanted",
      { hubDeployment: onHub({ min: 1 }), instance: there(anInstance(found.deployment, 1)) },
      "",
    ],
    [
      "stays beyond those that are wanted until its Instance is gone",
      { copy, hubDeployment: onHub({ min: 0 }) },
      "",
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

  it("has the template of the hub, whatever the cell says", () => {
    const forged = there({ ...instance, spec: { ...instance.spec, runtime: "x".repeat(100_000) } as never });
    const { create } = decideCopy({ ...copyView, instance: forged });
    expect(create?.spec?.runtime).toEqual(onHub().spec?.template.spec.runtime);
  });

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
