import type { Pod } from "@berth/kube";
import { aPod } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import type { FootprintGroup } from "../document.ts";
import { footprintOf } from "../testing/footprints.ts";
import { sightOf } from "../testing/pods.ts";
import { admitWait, type WaitQuestion } from "./admit.ts";

const POOL = { group: "test.berth.dev", kind: "Pool" };
const base = {
  workloads: [{ podSelector: { matchLabels: { agent: "needed" } } }],
  node: { label: { key: "x.test/agent" } },
  agent: { daemonSet: { namespace: "agents", name: "agent" } },
} as const;
const wait = { inject: "Webhook", container: { name: "wait", image: "busybox:1.36" }, port: 80 } as const;
const footprint = footprintOf({ ...base, wait });

function ask(
  object: unknown,
  more: Partial<WaitQuestion> = {},
  footprints = [footprint],
  observations = sightOf({}),
) {
  return admitWait(
    { footprints, observations },
    { kind: { kind: "Pod" }, operation: "CREATE", object, namespace: "default", ...more },
  );
}

const needing = (change: (pod: Pod) => Pod = (pod) => pod): Pod =>
  aPod("p").labelled({ agent: "needed" }).with(change).build();
const nothing = { patch: [], unknown: [] };

describe("a new pod", () => {
  it("that a footprint selects waits for its agent", () => {
    expect(ask(needing()).patch).toMatchObject([
      { op: "add", path: "/spec/initContainers", value: [{ name: "wait", image: "busybox:1.36" }] },
    ]);
  });

  it.each<[string, unknown, Partial<WaitQuestion>]>([
    ["that no footprint selects", aPod("p").build(), {}],
    ["when it is updated", needing(), { operation: "UPDATE" }],
    ["by a subresource", needing(), { subResource: "status" }],
    ["that is none", needing(), { kind: { kind: "Deployment" } }],
    [
      "that is static",
      aPod("p").labelled({ agent: "needed" }).annotated({ "kubernetes.io/config.mirror": "x" }).build(),
      {},
    ],
    [
      "for Windows",
      needing((pod) => ({ ...pod, spec: { containers: [], ...pod.spec, os: { name: "windows" } } })),
      {},
    ],
    [
      "of the agent itself",
      aPod("p").in("agents").labelled({ agent: "needed" }).ofDaemonSet("agent").build(),
      { namespace: "agents" },
    ],
  ])("does not %s", (_name, object, more) => {
    expect(ask(object, more)).toEqual(nothing);
  });

  it.each<[string, FootprintGroup, Pod]>([
    ["without the label that groups", { by: "PodLabel", label: "team" }, needing()],
    [
      "whose label can be no claim",
      { by: "PodLabel", label: "team" },
      aPod("p")
        .labelled({ agent: "needed", team: "x".repeat(63) })
        .build(),
    ],
    ["that nobody controls, where owners group", { by: "OwnerUID", owner: POOL }, needing()],
    [
      "that nobody controls, where a label has to be an owner's",
      { by: "PodLabel", label: "team", owner: POOL },
      aPod("p").labelled({ agent: "needed", team: "a" }).build(),
    ],
  ])("does not %s: no agent would come for it", (_name, group, object) => {
    const node = { ...base.node, claims: { annotationPrefix: "x.test/claim." } };
    expect(ask(object, {}, [footprintOf({ ...base, node, group, wait })])).toEqual(nothing);
    const owned = {
      ...object,
      metadata: {
        ...object.metadata,
        labels: { agent: "needed", team: "a" },
        ownerReferences: [
          { apiVersion: "apps/v1", kind: "ReplicaSet", name: "r", uid: "r", controller: true },
        ],
      },
    };
    expect(ask(owned, {}, [footprintOf({ ...base, node, group, wait })]).patch).toHaveLength(1);
  });

  it("does not by a footprint whose pods do not wait", () => {
    expect(ask(needing(), {}, [footprintOf(base)])).toEqual(nothing);
  });

  it("starts without waiting where it cannot be told yet, and that is told", () => {
    const selective = footprintOf({
      ...base,
      wait,
      workloads: [{ ...base.workloads[0], namespaceSelector: { matchLabels: { team: "a" } } }],
    });
    expect(ask(needing(), {}, [selective])).toEqual({ patch: [], unknown: ["cluster/f"] });
    const known = sightOf({ namespaces: { default: { team: "a" } } });
    expect(ask(needing(), {}, [selective], known).patch).toHaveLength(1);
  });

  it("waits by what it requests and mounts as well", () => {
    const requesting = footprintOf({ ...base, wait, workloads: [{ requests: ["gpu.test/x"] }] });
    const mounting = footprintOf({ ...base, wait, workloads: [{ csiDrivers: ["csi.test"] }] });
    expect(ask(aPod("p").requesting({ "gpu.test/x": "1" }).build(), {}, [requesting]).patch).toHaveLength(1);
    const pod = needing((it) => ({
      ...it,
      spec: { containers: [], ...it.spec, volumes: [{ name: "v", csi: { driver: "csi.test" } }] },
    }));
    expect(ask(pod, {}, [mounting]).patch).toHaveLength(1);
  });

  it.each([
    undefined,
    null,
    7,
    { spec: 7 },
    { metadata: { labels: { agent: 7 } }, spec: { containers: 7, volumes: [null, 7] } },
    {
      metadata: { labels: { agent: "needed" }, ownerReferences: [null, { kind: 7 }] },
      spec: { initContainers: 7 },
    },
    {
      metadata: 7,
      spec: { containers: [{ resources: { requests: [] } }], volumes: [{ csi: 7, ephemeral: 7 }] },
    },
  ])("can be anything, and is let through: %j", (object) => {
    expect(() => ask(object)).not.toThrow();
  });
});
