import type { Container, Pod, Volume } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { FootprintWorkload } from "./document.ts";
import { podNeeds } from "./needs.ts";
import { footprintOf } from "./testing/footprints.ts";
import { makePod, type PodInit, type SightInit, sightOf } from "./testing/pods.ts";

const GPU = "nvidia.com/gpu";
const EFS = "efs.csi.aws.com";
const LABELLED: FootprintWorkload = { podSelector: { matchLabels: { app: "a" } } };
const AGENT = { daemonSet: { namespace: "system", name: "agent" } };

function needs(workloads: readonly FootprintWorkload[], pod: Pod, observations: SightInit = {}): string {
  const footprint = footprintOf({ workloads, node: { label: { key: "example.com/agent" } }, agent: AGENT });
  return podNeeds(pod, footprint, sightOf(observations));
}

const labelled = (init: PodInit = {}): Pod => makePod("p", { labels: { app: "a" }, ...init });
const withContainer = (resources: Container["resources"], init = false): Pod => {
  const container: Container = { name: "c", ...(resources && { resources }) };
  return makePod("p", { spec: init ? { initContainers: [container] } : { containers: [container] } });
};
const withVolume = (volume: Omit<Volume, "name">): Pod =>
  makePod("p", { spec: { volumes: [{ name: "v", ...volume }] } });

describe("the life of a pod", () => {
  it.each<[string, Partial<FootprintWorkload>, PodInit, string]>([
    ["F-E4 one that runs counts", {}, {}, "yes"],
    ["F-E4 one without a phase counts", {}, { phase: "" }, "yes"],
    ["F-E4 one that has failed does not", {}, { phase: "Failed" }, "no"],
    ["F-E4 nor one that has succeeded", {}, { phase: "Succeeded" }, "no"],
    ["F-E3 one that ends counts until it is gone", {}, { isEnding: true }, "yes"],
    ["F-E3 or no longer, where the workload says so", { terminating: "Release" }, { isEnding: true }, "no"],
    ["F-E4 finished pods count where no phase is ignored", { ignorePhases: [] }, { phase: "Failed" }, "yes"],
    ["F-E3 but not those that end besides", { ignorePhases: [] }, { phase: "Failed", isEnding: true }, "no"],
    ["other phases can be ignored", { ignorePhases: ["Pending"] }, { phase: "Pending" }, "no"],
  ])("%s", (_, workload, init, expected) => {
    expect(needs([{ ...LABELLED, ...workload }], labelled(init))).toBe(expected);
  });

  it("does not count where it is the agent's own", () => {
    const own = { namespace: "system", owners: ["apps/DaemonSet ds"] };
    const named = (name: string): Pod => {
      const pod = labelled(own);
      const [owner] = pod.metadata?.ownerReferences ?? [];
      return { ...pod, metadata: { ...pod.metadata, ownerReferences: owner ? [{ ...owner, name }] : [] } };
    };
    expect(needs([LABELLED], named("agent"))).toBe("no");
    expect(needs([LABELLED], named("other"))).toBe("yes");
    expect(needs([LABELLED], labelled({ ...own, namespace: "default" }))).toBe("yes");
  });

  it("does not count where a controller of another group has made it for the agent, which Berth is told to leave to others", () => {
    const pod = labelled({ namespace: "system" });
    const controlled = (apiVersion: string, kind = "DaemonSet"): Pod => {
      const owner = { apiVersion, kind, name: "agent", uid: "u", controller: true };
      return { ...pod, metadata: { ...pod.metadata, ownerReferences: [owner] } };
    };
    const answer = (nodeSelector: "Off" | "Verify" | "Manage", by: Pod): string => {
      const label = { key: "example.com/agent" };
      const footprint = footprintOf({
        workloads: [LABELLED],
        node: { label },
        agent: { ...AGENT, nodeSelector },
      });
      return podNeeds(by, footprint, sightOf({}));
    };
    const advanced = controlled("apps.kruise.io/v1beta1");
    expect(answer("Off", advanced)).toBe("no");
    expect(answer("Off", controlled("apps/v1"))).toBe("no");
    expect(answer("Off", controlled("apps.kruise.io/v1beta1", "CloneSet"))).toBe("yes");
    // Where it is compared, it is a DaemonSet of Kubernetes: another of its name is no agent.
    expect(answer("Verify", advanced)).toBe("yes");
    expect(answer("Manage", advanced)).toBe("yes");
  });

  it("does not count where a kubelet has made it: it may say anything", () => {
    expect(needs([LABELLED], labelled({ owners: ["Node n1"] }))).toBe("no");
    expect(needs([LABELLED], labelled({ owners: ["example.com/Node n1"] }))).toBe("yes");
    expect(needs([LABELLED], labelled({ owners: ["apps/ReplicaSet rs", "Node n1"] }))).toBe("yes");
  });
});

describe("what a workload asks of a pod", () => {
  it("are its labels", () => {
    expect(needs([LABELLED], makePod("p"))).toBe("no");
    expect(needs([{ podSelector: { matchLabels: { constructor: "x" } } }], makePod("p"))).toBe("no");
  });

  it("is the namespace, by labels that have to be known", () => {
    const workload = {
      namespaceSelector: { matchExpressions: [{ key: "off", operator: "DoesNotExist" }] },
    } as const;
    expect(needs([workload], makePod("p"), { namespaces: { default: {} } })).toBe("yes");
    expect(needs([workload], makePod("p"), { namespaces: { default: { off: "" } } })).toBe("no");
    expect(needs([workload], makePod("p"), { namespaces: { default: null } })).toBe("no");
    expect(needs([workload], makePod("p"))).toBe("unknown");
    expect(needs([{ ...workload, ...LABELLED }], makePod("p"))).toBe("no");
  });

  it.each<[string, Pod, string]>([
    ["a request", withContainer({ requests: { [GPU]: "1" } }), "yes"],
    ["a limit, of a pod that has no requests yet", withContainer({ limits: { [GPU]: "1" } }), "yes"],
    ["a request of nothing", withContainer({ requests: { [GPU]: "0" }, limits: { [GPU]: "1" } }), "no"],
    ["a quantity that is none", withContainer({ requests: { [GPU]: "many" } }), "no"],
    ["another resource", withContainer({ requests: { cpu: "1" } }), "no"],
    ["no resources", withContainer(undefined), "no"],
    ["an init container", withContainer({ requests: { [GPU]: "2" } }, true), "yes"],
    ["the pod as a whole", makePod("p", { spec: { resources: { requests: { [GPU]: "1" } } } }), "yes"],
    ["a pod without a spec", { metadata: { name: "p" } }, "no"],
  ])("is a resource: %s", (_, pod, expected) => {
    expect(needs([{ requests: ["amd.com/gpu", GPU] }], pod)).toBe(expected);
  });

  it.each<[string, Pod, SightInit["drivers"], string]>([
    ["inline", withVolume({ csi: { driver: EFS } }), {}, "yes"],
    ["another one inline", withVolume({ csi: { driver: "x" } }), {}, "no"],
    [
      "through a claim",
      withVolume({ persistentVolumeClaim: { claimName: "c" } }),
      { "default/c": EFS },
      "yes",
    ],
    [
      "through a claim that has none",
      withVolume({ persistentVolumeClaim: { claimName: "c" } }),
      { "default/c": null },
      "no",
    ],
    [
      "through a claim that is not known",
      withVolume({ persistentVolumeClaim: { claimName: "c" } }),
      {},
      "unknown",
    ],
    ["of an ephemeral volume", withVolume({ ephemeral: {} }), { "default/p-v": EFS }, "yes"],
    ["of no volume", makePod("p"), {}, "no"],
    ["of a volume without one", withVolume({ emptyDir: {} }), {}, "no"],
  ])("is a driver %s", (_, pod, drivers = {}, expected) => {
    expect(needs([{ csiDrivers: [EFS] }], pod, { drivers })).toBe(expected);
  });

  it("is all of it, and one workload is enough", () => {
    const both: FootprintWorkload = { ...LABELLED, requests: [GPU] };
    expect(needs([both], labelled())).toBe("no");
    expect(needs([both, { requests: [GPU] }], withContainer({ requests: { [GPU]: "1" } }))).toBe("yes");
    const unknown: FootprintWorkload = { csiDrivers: [EFS] };
    const claiming = { labels: { app: "a" }, spec: { volumes: [{ name: "v", ephemeral: {} }] } };
    expect(needs([unknown], makePod("p", claiming))).toBe("unknown");
    expect(needs([unknown, LABELLED], makePod("p", claiming))).toBe("yes");
    expect(needs([LABELLED, unknown], makePod("p", claiming))).toBe("yes");
  });
});

it("is total over pods of which anything is missing", () => {
  const workload: FootprintWorkload = {
    podSelector: { matchExpressions: [{ key: "a", operator: "DoesNotExist" }] },
    namespaceSelector: { matchLabels: { a: "b" } },
    requests: ["constructor"],
    csiDrivers: ["constructor"],
  };
  const key = fc.constantFrom("a", "constructor", "__proto__", "toString");
  const map = fc.dictionary(key, fc.constantFrom("", "1", "a".repeat(63)));
  const resources = fc.record({ requests: map, limits: map }, { requiredKeys: [] });
  const pod = fc.record(
    {
      metadata: fc.record(
        { name: fc.string(), namespace: key, uid: fc.string(), labels: map, deletionTimestamp: fc.string() },
        { requiredKeys: [] },
      ),
      spec: fc.record({
        containers: fc.array(fc.record({ name: key, resources }, { requiredKeys: ["name"] }), {
          maxLength: 2,
        }),
        volumes: fc.array(
          fc.record(
            { name: key, csi: fc.record({ driver: key }), ephemeral: fc.constant({}) },
            { requiredKeys: ["name"] },
          ),
          { maxLength: 3 },
        ),
      }),
      status: fc.record({ phase: fc.string() }, { requiredKeys: [] }),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(pod, (it) => {
      expect(["yes", "no", "unknown"]).toContain(needs([workload], it as Pod));
    }),
  );
});
