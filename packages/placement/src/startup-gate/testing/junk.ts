/** Objects with all that signals read of them, and the same ones with junk somewhere. */
import type { DaemonSet, Node, Pod } from "@berth/kube";
import { aNode, aPod, BUILT_AT } from "@berth/testcluster";

export const whole: { readonly node: Node; readonly pod: Pod; readonly daemonSet: DaemonSet } = {
  node: aNode("n1").tainted("a=b:NoSchedule").stored({ creationTimestamp: BUILT_AT }).build(),
  pod: {
    ...aPod("p").in("kube-system").on("n1").ready().ofDaemonSet("cni", "u").annotated({ a: "b" }).build(),
    status: {
      phase: "Running",
      conditions: [{ type: "Ready", status: "True", lastTransitionTime: BUILT_AT }],
      containerStatuses: [
        {
          name: "c",
          ready: true,
          restartCount: 0,
          image: "",
          imageID: "",
          state: { running: { startedAt: BUILT_AT } },
        },
      ],
    },
  },
  daemonSet: {
    metadata: { name: "cni", namespace: "kube-system", uid: "u" },
    spec: {
      selector: {
        matchLabels: { app: "cni" },
        matchExpressions: [{ key: "a", operator: "In", values: ["b"] }],
      },
      template: {
        spec: {
          containers: [],
          nodeSelector: { a: "b" },
          tolerations: [{ key: "a", operator: "Exists" }],
          affinity: {
            nodeAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: {
                nodeSelectorTerms: [{ matchExpressions: [{ key: "a", operator: "Gt", values: ["1"] }] }],
              },
            },
          },
        },
      },
    },
  },
};

/** A copy of the object with one value in it, found by going down its entries, replaced. */
export function replaced<T>(object: T, path: readonly number[], junk: unknown): T {
  const copy = structuredClone(object);
  let at: unknown = copy;
  for (const [depth, step] of path.entries()) {
    const holder = at as Record<string, unknown>;
    const keys = Object.keys(holder);
    const key = keys[step % keys.length];
    if (key === undefined) break;
    const next = holder[key];
    if (typeof next !== "object" || next === null || depth === path.length - 1) {
      holder[key] = junk;
      break;
    }
    at = next;
  }
  return copy;
}
