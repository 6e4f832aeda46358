import { describe, expect, it } from "vitest";
import type { Seen } from "../../api/seen.ts";
import type { Instance } from "../../api/workload.ts";
import { aHubNamespace, aSource, going, onHub } from "../testing/fixtures.ts";
import { copy, instance, none, there, told, unknown, withMetadata } from "../testing/instances.ts";
import { type Class, type ClassifyView, classify } from "./classify.ts";
import { decideProjection, type ProjectionView } from "./decide.ts";

const view: ProjectionView = {
  deployment: aSource(),
  copy: there(copy),
  hubDeployment: there(onHub()),
  inCell: there(instance),
  projection: undefined,
};
const first = decideProjection(view).create;
const projection: Instance = { ...first, metadata: { ...first?.metadata, uid: "projection-uid" } };

/** As the original shows it: its owner does not control it. */
const owner = { apiVersion: "v1", kind: "WorkloadDeployment", name: "w-us-dfw", uid: "source-uid" };
const ofOriginal = withMetadata(projection, {
  labels: { "meta.datumapis.com/upstream-cluster-name": "cluster-acme_web" },
  ownerReferences: [owner],
});
const unowned = (annotations: Readonly<Record<string, string>>): Instance =>
  withMetadata(copy, { ownerReferences: [], annotations });

describe("2.10 the Instance that a project sees", () => {
  const gone: Seen<Instance> = none;

  it.each<[string, Partial<ProjectionView>, string]>([
    ["is made", {}, "create"],
    ["H19 is made once", { projection }, ""],
    ["has the status of the copy", { projection: { ...projection, status: {} } }, "status"],
    [
      "A21 has its labels restored",
      { projection: withMetadata(projection, { labels: { "compute.datumapis.com/hub-uid": "x" } }) },
      "patch",
    ],
    [
      "is made anew when a user changed its spec",
      { projection: { ...projection, spec: undefined as never } },
      "delete",
    ],
    ["R24 is not made without its deployment", { deployment: undefined }, ""],
    ["is not made under one that is being deleted", { deployment: aSource({ metadata: going }) }, ""],
    [
      "is not made for another deployment of the same name",
      { deployment: aSource({ metadata: { uid: "newer" } }) },
      "",
    ],
    [
      "is not made from another namespace of the hub",
      {
        deployment: aSource({
          metadata: { annotations: { "compute.datumapis.com/federation-namespace": "ns-V" } },
        }),
      },
      "",
    ],
    ["is not made without the hub's deployment", { hubDeployment: none }, ""],
    ["H6 goes when hub and cell have it no more", { projection, copy: gone, inCell: gone }, "delete"],
    ["stays while the cell has it", { projection, copy: gone }, ""],
    ["stays while nothing is known of the cell", { projection, copy: gone, inCell: unknown }, ""],
    [
      "goes with its source, though nothing is known of the cell",
      { projection, copy: gone, inCell: unknown, deployment: undefined, hubDeployment: none },
      "delete",
    ],
    [
      "stays while the hub has lost its deployment too",
      { projection, copy: gone, inCell: gone, hubDeployment: none },
      "",
    ],
    ["stays while the hub is silent", { projection, copy: unknown, inCell: gone }, ""],
    [
      "T4 is left alone when Berth did not make it",
      { projection: withMetadata(projection, { labels: {} }), copy: gone, inCell: gone },
      "",
    ],
    ["T4 of the original becomes Berth's", { projection: ofOriginal }, "patch"],
    [
      "T4 of the original is not deleted with its copy",
      { projection: ofOriginal, copy: gone, inCell: gone, deployment: undefined },
      "",
    ],
    [
      "T4 is not of the original when something runs under it",
      { projection: withMetadata(ofOriginal, { finalizers: ["compute.datumapis.com/instance-controller"] }) },
      "",
    ],
    ["is made from a copy that the original wrote", { copy: there(unowned({})) }, "create"],
    [
      "is not made from a copy that lost its owner",
      { copy: there(unowned({ "berth.dev/cell-uid": "uid-a" })) },
      "",
    ],
    [
      "keeps the owner that the original took for itself",
      { projection: withMetadata(projection, { ownerReferences: [{ ...owner, controller: false }] }) },
      "patch",
    ],
  ])("%s", (_, fields, expected) => expect(told(decideProjection({ ...view, ...fields }))).toBe(expected));

  it("R24 is owned by the deployment of the project, and names its copy", () => {
    expect(first?.metadata).toMatchObject({
      namespace: "default",
      ownerReferences: [{ uid: "source-uid", controller: true }],
    });
    expect(first?.metadata?.labels).toMatchObject({
      "compute.datumapis.com/hub-namespace": "ns-U",
      "compute.datumapis.com/hub-uid": "copy-uid",
      "compute.datumapis.com/workload-deployment-uid": "wd-a",
    });
    expect(first?.metadata?.labels).not.toHaveProperty("meta.datumapis.com/upstream-cluster-name");
  });
});

describe("8.6 an Instance of the hub that cannot be shown", () => {
  const seen: ClassifyView = {
    copy,
    namespace: aHubNamespace(),
    project: "synced",
    hasDeployment: true,
    unseenForMs: 0,
  };
  const without = (key: string): Instance => {
    const { [key]: _, ...labels } = copy.metadata?.labels ?? {};
    return withMetadata(copy, { labels });
  };
  const of = (is: Class): string => (is.is === "terminal" ? is.reason : is.is);

  it.each<[string, Partial<ClassifyView>, string]>([
    ["the project is not connected", { project: "unknown" }, "retry"],
    ["its API server failed", { project: "failed" }, "retry"],
    ["the deployment is absent", { hasDeployment: false, unseenForMs: 59_999 }, "retry"],
    [
      "the deployment is absent for a minute",
      { hasDeployment: false, unseenForMs: 60_000 },
      "ProjectDeploymentMissing",
    ],
    [
      "A25 the project is missing",
      { copy: without("meta.datumapis.com/upstream-cluster-name") },
      "IdentityMissing",
    ],
    [
      "the namespace is missing",
      { copy: without("meta.datumapis.com/upstream-namespace") },
      "IdentityMissing",
    ],
    [
      "R25 the name of the deployment is missing",
      { copy: without("compute.datumapis.com/workload-deployment-name") },
      "IdentityMissing",
    ],
    [
      "the project cannot be decoded",
      {
        copy: withMetadata(copy, {
          labels: { ...copy.metadata?.labels, "meta.datumapis.com/upstream-cluster-name": "web" },
        }),
      },
      "IdentityUndecodable",
    ],
    ["it is being deleted", { copy: withMetadata(copy, going), project: "failed" }, "nothing"],
    ["nothing is wrong", {}, "fine"],
  ])("%s", (_, fields, expected) => expect(of(classify({ ...seen, ...fields }))).toBe(expected));

  it("H21 keeps its verdict until its identity changes or its deployment appears", () => {
    const print = (fields: Partial<ClassifyView>): unknown => {
      const verdict = classify({ ...seen, hasDeployment: false, unseenForMs: 1e9, ...fields });
      return verdict.is === "terminal" ? verdict.fingerprint : verdict.is;
    };
    expect(print({ unseenForMs: 2e9 })).toBe(print({}));
    expect(print({ copy: without("meta.datumapis.com/upstream-namespace") })).not.toBe(print({}));
    expect(print({ hasDeployment: true })).toBe("fine");
  });
});
