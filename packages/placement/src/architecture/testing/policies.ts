/** Architecture policies for tests, read and compiled as those of users are. */

import type { Document, SourceDocuments, SourceName } from "@berth/host";
import { compileArchitecture } from "../compile.ts";
import { type ArchitecturePolicySpec, architecturePolicySpec, BOOTSTRAP_ANNOTATION } from "../document.ts";
import type { ArchitecturePolicies, ArchitecturePolicyInForce } from "../policy.ts";

/** A `spec` as a user writes it. */
export type PolicyInit = Partial<Omit<ArchitecturePolicySpec, "taint">> & {
  readonly taint?: Partial<ArchitecturePolicySpec["taint"]>;
  /** Not part of the spec: `berth.dev/bootstrap-confirmed`. */
  readonly confirmed?: boolean;
};

export function readSpec({ confirmed: _confirmed, ...init }: PolicyInit): ArchitecturePolicySpec {
  return architecturePolicySpec.parse({ mode: "Taint", ...init });
}

/** Documents of one source by name. Without a mode of its own a policy taints. */
export function documentsOf(
  policies: Readonly<Record<string, PolicyInit>>,
  source: SourceName = "cluster",
): SourceDocuments<Document<ArchitecturePolicySpec>> {
  const documents = Object.entries(policies).map(([name, init]) => ({
    name,
    annotations: init.confirmed === true ? { [BOOTSTRAP_ANNOTATION]: "true" } : {},
    spec: readSpec(init),
  }));
  return { source, documents };
}

/** Those of the cluster, compiled. */
export function policiesOf(
  policies: Readonly<Record<string, PolicyInit>>,
  more: Omit<Parameters<typeof compileArchitecture>[0], "sources"> = {},
): ArchitecturePolicies {
  return compileArchitecture({ sources: [documentsOf(policies)], ...more });
}

/** One policy in force, `cluster/p`. @throws Error when it has a fault. */
export function policyInForce(init: PolicyInit): ArchitecturePolicyInForce {
  const { policies, faults } = policiesOf({ p: init });
  const [policy] = policies;
  if (policy === undefined) throw new Error(faults.map(({ message }) => message).join("; "));
  return policy;
}
