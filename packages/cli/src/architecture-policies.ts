import {
  type ArchitecturePolicies,
  type ArchitecturePolicySpec,
  architecturePolicies,
  architecturePolicySpec,
  type CompileArchitectureInput,
  compileArchitecture,
  declaredArchitecturePlaces,
  type MarkId,
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
  /** What policies of this process have declared: the taint of one that is deleted has to come off. */
  const declared = new Set<MarkId>();
  return new DocumentHub({
    kind: architectureDocuments,
    assemble({ before, unsettled, ...sources }) {
      const policies = assembleDocuments(architectureDocuments, sources, {
        before: before?.policies ?? [],
        declaredBefore: declared,
        unsettled,
      });
      for (const id of policies === undefined ? [] : declaredArchitecturePlaces(policies)) declared.add(id);
      return policies;
    },
    reason: reasons.ArchitecturePolicyInForce,
    onChange,
  });
}
