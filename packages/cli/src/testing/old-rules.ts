import { bindAdmission } from "@berth/host";
import {
  architectureAdmission,
  architecturePolicySpec,
  compileArchitecture,
  compileFootprints,
  nodeFootprintSpec,
  waitAdmission,
} from "@berth/placement";
import { createSilentLogger } from "@berth/runtime";

export const policySpec: object = { mode: "Affinity" };
export const footprintSpec: object = {
  preset: "log",
  workloads: [{ podSelector: { matchLabels: { logs: "yes" } } }],
  wait: { inject: "Webhook", port: 9, container: { name: "wait", image: "registry.test/wait:1" } },
};

/** Rules of both capabilities, which know no image and every namespace. */
export function rulesOf(ownNamespace: string): ReturnType<typeof bindAdmission>[] {
  const spec = architecturePolicySpec.parse(policySpec);
  const policies = compileArchitecture({
    sources: [{ source: "cluster", documents: [{ name: "all", spec, annotations: {} }] }],
  });
  const waiting = nodeFootprintSpec.parse(footprintSpec);
  const footprints = compileFootprints({
    sources: [{ source: "cluster", documents: [{ name: "agent", spec: waiting }] }],
  });
  const answers = {
    architectureOf: () => undefined,
    namespaceLabels: () => ({}),
    ownNamespace,
    observations: {
      look: ({ image }: { readonly image: string }) => ({ state: "unknown", name: image }) as const,
    },
    now: () => 0,
    onPod: () => undefined,
  };
  const observations = { namespaceLabels: () => ({}), driverOfClaim: () => null };
  return [
    bindAdmission(architectureAdmission(answers), () => policies),
    bindAdmission(waitAdmission({ observations, log: createSilentLogger() }), () => footprints),
  ];
}
