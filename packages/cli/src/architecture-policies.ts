import {
  type ArchitecturePolicies,
  type ArchitecturePolicySpec,
  architecturePolicies,
  architecturePolicySpec,
  type CompileArchitectureInput,
  compileArchitecture,
  reasons,
} from "@berth/placement";
import { DocumentHub } from "./document-hub.ts";
import { assembleDocuments, type DocumentKind } from "./document-kind.ts";

export const architectureDocuments: DocumentKind<
  ArchitecturePolicySpec,
  ArchitecturePolicies,
  Omit<CompileArchitectureInput, "sources">
> = {
  resource: architecturePolicies,
  schema: architecturePolicySpec,
  located: (settings) => settings.architecturePolicies,
  compile: compileArchitecture,
  goOn: ({ policies: before }) => ({ before }),
  faultsOf: ({ faults }) => faults.map(({ policy: name, ...fault }) => ({ ...fault, name })),
};

/** @param onChange policies came into force or ceased to be. */
export function createArchitectureHub(
  onChange: (policies: ArchitecturePolicies) => void,
): DocumentHub<ArchitecturePolicySpec, ArchitecturePolicies> {
  return new DocumentHub({
    kind: architectureDocuments,
    assemble({ before, unsettled, ...sources }) {
      const goOn = { before: before?.policies ?? [], unsettled };
      return assembleDocuments(architectureDocuments, sources, goOn);
    },
    reason: reasons.ArchitecturePolicyInForce,
    onChange,
  });
}
