import type { KubeClient } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { annotations, labels, projectMarks } from "../api/keys.ts";
import { fleetKind } from "../fleet/document.ts";
import { payerOf, quotaClients } from "./payer.ts";

const cell = fleetKind.spec.parse({ mode: "cell", cell: "dfw-01" });
const single = { ...cell, mode: "single" as const };
const [cluster, upstream] = [labels.upstreamCluster, labels.upstreamNamespace];
const unresolvable = (label: string) => ({
  is: "unresolvable",
  message: `namespace ns-u does not say which project pays: its label ${label} is missing or cannot be read`,
});

describe("the project that pays for a namespace", () => {
  it.each([
    ["both labels", { [cluster]: "cluster-_org_web", [upstream]: "up" }, { project: "web", namespace: "up" }],
    ["no labels", undefined, unresolvable(cluster)],
    ["no cluster", { [upstream]: "up" }, unresolvable(cluster)],
    ["an unreadable cluster", { [cluster]: "web", [upstream]: "up" }, unresolvable(cluster)],
    ["no namespace", { [cluster]: "cluster-web" }, unresolvable(upstream)],
    ["an empty namespace", { [cluster]: "cluster-web", [upstream]: "" }, unresolvable(upstream)],
  ])("in a cell, with %s", (_, given, payer) => {
    expect(payerOf(cell, "ns-u", { metadata: { ...(given && { labels: given }) } })).toEqual(payer);
  });

  it("in a cell, is that of an annotation where the path is too long for the label", () => {
    const marks = projectMarks(`${"o".repeat(60)}/web`);
    const found = (given: typeof marks.annotations) =>
      payerOf(cell, "ns-u", {
        metadata: { labels: { ...marks.labels, [upstream]: "up" }, annotations: given },
      });
    expect(found(marks.annotations)).toEqual({ project: "web", namespace: "up" });
    // A writer of annotations alone sends the bill to no other project.
    expect(found({ [annotations.upstreamCluster]: "cluster-other" })).toEqual(unresolvable(cluster));
  });

  it("in a cell, is not known before the namespace is read, and not where it has no metadata", () => {
    expect(payerOf(cell, "ns-u", {})).toEqual(unresolvable(cluster));
    expect(payerOf(cell, "ns-u", undefined)).toEqual({
      is: "read",
      project: "",
      claim: { is: "unknown", because: "Berth has not read namespace ns-u" },
    });
  });

  it("in mode single, is what the Fleet names", () => {
    expect([
      payerOf({ ...single, project: { id: "p" } }, "ns-u", undefined),
      payerOf({ ...single, project: undefined }, "ns-u", undefined),
    ]).toEqual([
      { project: "p", namespace: "ns-u" },
      { project: "", namespace: "ns-u" },
    ]);
  });

  it("has its claims below its own path, or in the one cluster", () => {
    const paths: string[] = [];
    const client: Pick<KubeClient, "under"> = { under: (path) => (paths.push(path), client as KubeClient) };
    for (const from of ["Projects", "Cluster"] as const)
      expect(quotaClients(from, client as KubeClient).clientOf("web")).toBe(client);
    expect(paths).toEqual(["/apis/resourcemanager.miloapis.com/v1alpha1/projects/web/control-plane"]);
  });
});
