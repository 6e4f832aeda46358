import { describe, expect, it } from "vitest";
import type { InstanceTemplate } from "../api/workload.ts";
import { RULES } from "../fleet/testing/rules.ts";
import { sortKeys, templateVerdict } from "./keys.ts";

const template = (...keys: readonly string[]) => ({ template: { ...RULES.template, keys } });
const verdictOn = (metadata: InstanceTemplate["metadata"] = {}) => {
  const template: InstanceTemplate = {
    metadata,
    spec: { runtime: { resources: { instanceType: "" } }, networkInterfaces: [] },
  };
  const workloadRef = { name: "w", uid: "u" };
  const scaleSettings = { minReplicas: 1 };
  const spec = { workloadRef, placementName: "us", cityCode: "DFW", template, scaleSettings };
  return templateVerdict({ spec }, RULES);
};
const all = (keys: readonly string[]) => Object.fromEntries(keys.map((key) => [key, "x"]));

/** What other programs of a cluster act on. */
const DANGEROUS = [
  "k8s.v1.cni.cncf.io/networks",
  "container.apparmor.security.beta.kubernetes.io/app",
  "iam.amazonaws.com/role",
  "azure.workload.identity/use",
  "sidecar.istio.io/inject",
  "topology.kubernetes.io/zone",
  "topology.datum.net/city-code",
  "meta.datumapis.com/upstream-namespace",
  "compute.datumapis.com/source-cluster",
  "berth.dev/tolerate-startup-gates",
  "app.kubernetes.io.evil.example/name",
  "/",
];
const HARMLESS = [
  "team",
  "__proto__",
  "constructor",
  "app.kubernetes.io/name",
  ...["workload-uid", "workload-deployment-uid", "instance-index", "workload-deployment-name"].map(
    (name) => `compute.datumapis.com/${name}`,
  ),
  ...["city-code", "workload-name", "placement-name", "ssh-keys", "restartedAt"].map(
    (name) => `compute.datumapis.com/${name}`,
  ),
];

describe("S-13 a key of a template", () => {
  it("is not compared with globs when it is too long to be one", () => {
    const prefix = `${"a".repeat(253)}/`;
    const rules = template(`${"a".repeat(253)}/*`);
    expect(sortKeys(all([prefix + "b".repeat(63), prefix + "b".repeat(64)]), rules).leftOut).toEqual([
      prefix + "b".repeat(64),
    ]);
    const hostile = "a/".repeat(16_000);
    expect(sortKeys(all([hostile]), template("*a*/*b")).leftOut).toEqual([hostile]);
  });

  it("reaches the Pod without a prefix, or if the Fleet or the contract lists it", () => {
    const { kept, leftOut } = sortKeys(all([...DANGEROUS, ...HARMLESS]), RULES);
    expect(Object.keys(kept)).toEqual(HARMLESS);
    expect(leftOut).toEqual(DANGEROUS);
  });

  it("of Berth never does, and the Fleet's list replaces the default", () => {
    const keys = ["berth.dev/architectures", "sidecar.istio.io/inject", "app.kubernetes.io/name"];
    expect(sortKeys(all(keys), template("*")).leftOut).toEqual(["berth.dev/architectures"]);
    expect(sortKeys(all(keys), template("*.istio.io/*")).kept).toEqual({ "sidecar.istio.io/inject": "x" });
  });
});

describe("the deployment says which keys were left out", () => {
  it("not at all, where there are none", () => {
    expect(verdictOn({})).toBeUndefined();
    expect(templateVerdict({}, RULES)).toBeUndefined();
    expect(verdictOn({ labels: all(HARMLESS) })).toBeUndefined();
  });

  it("once each, sorted", () => {
    const metadata = { labels: all(["b/x", "a/x"]), annotations: all(["b/x", "c/x"]) };
    expect(verdictOn(metadata)).toEqual({
      status: "False",
      reason: "KeysLeftOut",
      message:
        "Pods do not get these labels and annotations of the template: a/x, b/x, c/x. The Fleet lists keys in template.keys",
    });
  });

  it("and counts them where a tenant writes many, or long ones", () => {
    const labels = all(Array.from({ length: 12 }, (_, at) => `${at}/${"x".repeat(50_000)}`));
    const { message = "" } = verdictOn({ labels }) ?? {};
    expect(message).toContain(" and 2 more.");
    expect(message.length).toBeLessThan(1200);
  });
});
