/** RuntimeClasses that keep a class of pods to one architecture, whatever their images say. Pure. */
import type { RuntimeClass } from "@berth/kube";

/**
 * One class `berth-<architecture>` for each. The API server merges `scheduling` into every pod that names the class
 * (`runtimeClassName`) before it calls webhooks. It refuses a pod whose node selector conflicts.
 *
 * @param handler of the container runtime, as the nodes have it configured: `runc`.
 * @param taintKeys that the pods tolerate at that architecture. Default none.
 */
export function architectureRuntimeClasses(
  architectures: readonly string[],
  { handler, taintKeys = [] }: { readonly handler: string; readonly taintKeys?: readonly string[] },
): readonly RuntimeClass[] {
  return [...new Set(architectures)].sort().map((architecture) => ({
    apiVersion: "node.k8s.io/v1",
    kind: "RuntimeClass",
    metadata: { name: `berth-${architecture}`, labels: { "app.kubernetes.io/name": "berth" } },
    handler,
    scheduling: {
      nodeSelector: { "kubernetes.io/arch": architecture },
      ...(taintKeys.length > 0 && {
        tolerations: [...new Set(taintKeys)]
          .sort()
          .map((key) => ({ key, value: architecture, effect: "NoSchedule" })),
      }),
    },
  }));
}
