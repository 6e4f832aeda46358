/** An Instance on its planes. */
import type { Instance } from "../../api/workload.ts";
import { anInstance } from "../../deployment/testing/fixtures.ts";
import type { Found } from "../cells/seen.ts";
import { type CopyDecision, type CopyView, decideCopy } from "../collect/copy.ts";
import type { ProjectionDecision } from "../projector/decide.ts";
import { aCell, aFound, aHubNamespace, onHub } from "./fixtures.ts";

export const there = <T>(value: T): { readonly is: "there"; readonly value: T } => ({ is: "there", value });
export const none = { is: "none" } as const;
export const unknown = { is: "unknown", because: "silent" } as const;
export const found: Found = aFound(aCell("a"));
export const instance: Instance = anInstance(found.deployment, 0);

export function told(decision: CopyDecision | ProjectionDecision): string {
  const { create, delete: deleted, patch, status } = decision;
  const parts = {
    create,
    delete: deleted,
    patch,
    status,
    read: "read" in decision ? decision.read : undefined,
  };
  return Object.entries(parts)
    .flatMap(([does, what]) => (what === undefined ? [] : does))
    .join();
}

export function withMetadata(it: Instance, metadata: Instance["metadata"]): Instance {
  return { ...it, metadata: { ...it.metadata, ...metadata } };
}

export const copyView: CopyView = {
  hubDeployment: onHub(),
  namespaceLabels: aHubNamespace().metadata?.labels ?? {},
  found,
  instance: there(instance),
  copy: undefined,
};
/** As it is stored on the hub. */
export const copy: Instance = withMetadata(decideCopy(copyView).create ?? {}, {
  uid: "copy-uid",
  ...decideCopy(copyView).create?.metadata,
});

export function withGates(of: Instance, ...gates: readonly string[]): Instance {
  const schedulingGates = gates.map((name) => ({ name }));
  const { spec } = of;
  if (spec === undefined) return of;
  return {
    ...of,
    spec: { ...spec, controller: { templateHash: "v1-a", ...spec.controller, schedulingGates } },
  };
}
