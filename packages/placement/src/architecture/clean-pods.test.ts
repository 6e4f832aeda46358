import type { OwnerReference, Pod, Toleration } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { planPodRestarts } from "./clean-pods.ts";

const ours: Toleration = { key: "supported-arch", value: "arm64", effect: "NoSchedule" };
const exists: Toleration = { key: "supported-arch", operator: "Exists", effect: "NoSchedule" };
const ownedBy = (kind: string, controller = true): readonly OwnerReference[] => [
  { apiVersion: "v1", kind, name: "owner", uid: "u", controller },
];

interface Init {
  readonly tolerations?: readonly Toleration[];
  readonly ownerReferences?: readonly OwnerReference[];
  readonly annotations?: Readonly<Record<string, string>>;
  readonly deletionTimestamp?: string;
  readonly phase?: string;
}
const podOf = (name: string, init: Init): Pod => {
  const { tolerations = [ours], phase = "Running", ownerReferences = ownedBy("ReplicaSet"), ...more } = init;
  return {
    metadata: { namespace: "default", name, ownerReferences, ...more },
    spec: { containers: [], tolerations },
    status: { phase },
  };
};
const tell = (pods: readonly Pod[], keys: readonly string[] = ["supported-arch"]): readonly string[] => {
  const { evict, left } = planPodRestarts(pods, keys);
  return [
    ...evict.map(({ metadata }) => `evict ${metadata?.name}`),
    ...left.map(({ pod, why }) => `${pod.metadata?.name}: ${why}`),
  ];
};

describe("pods that are restarted when Berth is cleaned up", () => {
  const lost = "p: no controller would create it again";
  const ofDaemonSet = "p: its DaemonSet has the toleration in its pod template";
  const fixed = "p: it is a static pod of its node, which the API cannot restart";

  it.each<[string, Init, readonly string[]]>([
    ["of a ReplicaSet", {}, ["evict p"]],
    ["with a toleration of every value", { tolerations: [exists] }, ["evict p"]],
    ["of a StatefulSet", { ownerReferences: ownedBy("StatefulSet") }, ["evict p"]],
    ["of nobody", { ownerReferences: [] }, [lost]],
    ["owned, but not controlled", { ownerReferences: ownedBy("ReplicaSet", false) }, [lost]],
    ["of a DaemonSet", { ownerReferences: ownedBy("DaemonSet") }, [ofDaemonSet]],
    ["of a Node", { ownerReferences: ownedBy("Node") }, [fixed]],
    ["that mirrors a static one", { annotations: { "kubernetes.io/config.mirror": "x" } }, [fixed]],
    ["that has ended", { phase: "Succeeded" }, ["p: it has ended"]],
    [
      "that is on its way out",
      { deletionTimestamp: "2026-01-01T00:00:00Z" },
      ["p: it is being deleted already"],
    ],
    ["without a toleration of ours", { tolerations: [{ key: "other", operator: "Exists" }] }, []],
    ["that tolerates everything by itself", { tolerations: [{ operator: "Exists" }] }, []],
    ["whose own toleration has another form", { tolerations: [{ ...ours, operator: "Equal" }] }, []],
    ["whose own is for every effect", { tolerations: [{ key: "supported-arch", value: "a" }] }, []],
  ])("A-B10 a pod %s", (_, init, expected) => expect(tell([podOf("p", init)])).toEqual(expected));

  it("A-B10 come in order, and are none without keys", () => {
    const pods = [podOf("b", {}), podOf("c", { phase: "Failed" }), podOf("a", {})];
    expect(tell(pods)).toEqual(["evict a", "evict b", "c: it has ended"]);
    expect(tell(pods, [])).toEqual([]);
  });
});
