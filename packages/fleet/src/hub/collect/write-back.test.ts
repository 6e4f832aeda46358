import { describe, expect, it } from "vitest";
import { going, onHub } from "../testing/fixtures.ts";
import {
  copyView,
  found,
  instance,
  none,
  there,
  unknown,
  withGates,
  withMetadata,
} from "../testing/instances.ts";
import { decideWriteBack, type WriteBackDecision, type WriteBackView } from "./write-back.ts";

const view: WriteBackView = {
  instance: there(instance),
  deployment: found.deployment,
  hubDeployment: onHub(),
  namespaceLabels: copyView.namespaceLabels,
  cellUid: "uid-a",
  copy: undefined,
};
const made = decideWriteBack(view).create ?? {};
const copy = withMetadata(made, { uid: "copy-uid" });
const told = ({ findings, ...rest }: WriteBackDecision): string =>
  [
    ...Object.entries(rest).flatMap(([does, it]) => (it === undefined ? [] : does)),
    ...findings.map(({ reason }) => reason),
  ].join();
/** As the original writes it. */
const ofOriginal = withMetadata(copy, { annotations: {} });
const unowned = withMetadata(ofOriginal, { ownerReferences: [] });
const ofOther = withMetadata(copy, {
  annotations: { ...copy.metadata?.annotations, "berth.dev/cell-uid": "b" },
});
const ofEarlier = withMetadata(copy, {
  ownerReferences: [
    { apiVersion: "v1", kind: "WorkloadDeployment", name: "w", uid: "older", controller: true },
  ],
});

describe("2.8 the copy that a cell writes to the hub", () => {
  const { "meta.datumapis.com/upstream-namespace": _, ...partly } = copyView.namespaceLabels;

  it.each<[string, Partial<WriteBackView>, string]>([
    ["is made", {}, "create"],
    ["H19 is made once", { copy }, ""],
    ["H16 is not made without its deployment on the hub", { hubDeployment: undefined }, ""],
    ["H16 is not made while that is being deleted", { hubDeployment: onHub({ metadata: going }) }, ""],
    ["is not made without its deployment in the cell", { deployment: undefined }, ""],
    ["R25 is not made without the labels of its project", { namespaceLabels: partly }, "IdentityMissing"],
    ["has the status of the cell", { copy: { ...copy, status: {} } }, "status"],
    [
      "R26 has its labels restored, and keeps those of others",
      { copy: withMetadata(copy, { labels: { theirs: "x" } }) },
      "patch",
    ],
    ["loses its gates", { copy: withGates(copy, "Quota", "Network") }, "patch"],
    [
      "is made anew for another Instance",
      {
        copy: withMetadata(copy, {
          annotations: { "berth.dev/source-uid": "older", "berth.dev/cell-uid": "uid-a" },
        }),
      },
      "delete",
    ],
    [
      "is made anew where its spec could not become right",
      { copy: { ...copy, spec: undefined as never } },
      "delete",
    ],
    ["goes with the Instance", { copy, instance: none }, "delete"],
    ["stays while the cell is not read", { copy, instance: unknown }, ""],
    ["is not deleted twice", { copy: withMetadata(copy, going), instance: none }, ""],
    ["H18 of another cell is left alone", { copy: ofOther }, "NameTaken"],
    ["H18 of another cell does not go with this one's", { copy: ofOther, instance: none }, ""],
    ["of the original is taken over", { copy: ofOriginal }, "patch"],
    ["of the original without an owner is taken over", { copy: unowned }, "patch"],
    ["of the original does not go with this one's", { copy: ofOriginal, instance: none }, ""],
    ["of an earlier deployment goes with that", { copy: ofEarlier }, ""],
    [
      "is not made of a copy: the hub may be in this cluster",
      {
        instance: there(
          withMetadata(instance, { finalizers: [], annotations: { "berth.dev/cell-uid": "x" } }),
        ),
      },
      "",
    ],
  ])("%s", (_name, fields, expected) => expect(told(decideWriteBack({ ...view, ...fields }))).toBe(expected));

  it("says whose it is, and has the whole spec", () => {
    expect(made.metadata).toMatchObject({
      annotations: { "berth.dev/source-uid": instance.metadata?.uid, "berth.dev/cell-uid": "uid-a" },
      ownerReferences: [{ uid: "hub-wd", controller: true }],
    });
    expect(made.spec).toEqual(instance.spec);
  });
});
