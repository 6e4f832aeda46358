import type { DaemonSet, Deployment, PodSpec } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { NodeFootprintSpec } from "../api/node-footprint.ts";
import { compileFootprints } from "../node/footprint/compile.ts";
import { documentsOf, footprintOf, footprintsOf } from "../node/footprint/testing/footprints.ts";
import { sightOf } from "../node/footprint/testing/pods.ts";
import { asksFor, forecastWait, type WaitForecastView, wouldHold } from "./footprint-workloads.ts";

const WEB: NodeFootprintSpec = {
  workloads: [{ podSelector: { matchLabels: { app: "web" } } }],
  node: { label: { key: "x.test/web" } },
  wait: { inject: "ServerSideApply", container: { name: "wait", image: "registry.test/wait:1" }, port: 80 },
};

function aDeployment(app: string, initContainers: PodSpec["initContainers"] = []): Deployment {
  const template = { metadata: { labels: { app } }, spec: { initContainers, containers: [] } };
  return { metadata: { namespace: "shop", name: app, uid: app }, spec: { selector: {}, template } };
}

/** One whose container was put in by a footprint that is no more. */
function aLeftDeployment(): Deployment {
  const field = { 'k:{"name":"old"}': { "f:name": {}, "f:image": {} } };
  const fieldsV1 = { "f:spec": { "f:template": { "f:spec": { "f:initContainers": field } } } };
  const { metadata, spec } = aDeployment("other", [{ name: "old", image: "registry.test/old:1" }]);
  const managedFields = [{ manager: "berth", operation: "Apply", fieldsV1 }];
  return { metadata: { ...metadata, managedFields }, ...(spec && { spec }) };
}

function forecast(
  deployment: Deployment,
  { spec = WEB, sight = sightOf({}), sourcesRead = ["config", "cluster"] } = {},
): ReturnType<typeof forecastWait> {
  const { footprints, faults } = footprintsOf({ web: spec });
  const view: WaitForecastView = {
    deployment,
    installation: "berth",
    footprints: { footprints, faults, policy: { sourcesRead: new Set(sourcesRead) } },
    sight,
  };
  return forecastWait(view);
}

describe("a Deployment", () => {
  it("would be rolled out for the container that its pods wait in", () => {
    expect(forecast(aDeployment("web"))).toEqual({ deployment: "shop/web", put: ["wait"], taken: [] });
  });

  it("is left alone where no workload takes its pods", () => {
    expect(forecast(aDeployment("other"))).toBeUndefined();
  });

  it("is not known while the namespaces that are selected have not been read", () => {
    const namespaceSelector = { matchLabels: { apm: "on" } };
    const spec = { ...WEB, workloads: [{ podSelector: { matchLabels: { app: "web" } }, namespaceSelector }] };
    const seen = (labels: Readonly<Record<string, string>> | undefined): ReturnType<typeof forecastWait> =>
      forecast(aDeployment("web"), {
        spec,
        sight: { ...sightOf({}), namespaceLabels: () => labels },
      });
    expect(seen(undefined)).toBe("unknown");
    expect(seen({ apm: "on" })).toMatchObject({ put: ["wait"] });
    expect(seen({})).toBeUndefined();
  });

  it("loses the container of a footprint that is no more, unless footprints of the cluster were not read", () => {
    expect(forecast(aLeftDeployment())).toEqual({ deployment: "shop/other", put: [], taken: ["old"] });
    expect(forecast(aLeftDeployment(), { sourcesRead: ["config"] })).toBeUndefined();
  });

  it("keeps the container of one that may be of a document with a fault", () => {
    const sources = [{ ...documentsOf({ web: WEB }), unreadable: [{ name: "old", message: "faulty" }] }];
    const footprints = compileFootprints({ sources });
    const view = { installation: "berth", footprints, sight: sightOf({}) };
    expect(forecastWait({ ...view, deployment: aLeftDeployment() })).toBeUndefined();
    expect(forecastWait({ ...view, deployment: aDeployment("web") })).toMatchObject({ put: ["wait"] });
  });
});

describe("a DaemonSet", () => {
  it("asks for the label of its footprint, or does not", () => {
    const footprint = footprintOf(WEB);
    const withSelector = (nodeSelector: Readonly<Record<string, string>>): DaemonSet => ({
      spec: { selector: {}, template: { spec: { containers: [], nodeSelector } } },
    });
    expect(asksFor(withSelector({ "x.test/web": "true" }), footprint)).toBe(true);
    expect(asksFor(withSelector({}), footprint)).toBe(false);
  });
});

describe("an owner", () => {
  it("would get the finalizer while it lives and does not have it", () => {
    const hold = { finalizer: "x.test/hold" };
    const metadata = { name: "pool", uid: "p", resourceVersion: "1" };
    expect(wouldHold(hold, { metadata })).toBe(true);
    expect(wouldHold(hold, { metadata: { ...metadata, finalizers: ["x.test/hold"] } })).toBe(false);
    expect(wouldHold(hold, { metadata: { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } })).toBe(
      false,
    );
  });
});
