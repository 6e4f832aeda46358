import {
  type CompileFootprintsInput,
  compileFootprints,
  declaredFootprintPlaces,
  type Footprints,
  type MarkSet,
  type NodeFootprintSpec,
  nodeFootprintSpec,
  nodeFootprints,
  reasons,
} from "@berth/placement";
import { DocumentHub } from "../document-hub.ts";
import { assembleDocuments, type DocumentKind } from "../document-kind.ts";

export const footprintDocuments: DocumentKind<
  NodeFootprintSpec,
  Footprints,
  Omit<CompileFootprintsInput, "sources">
> = {
  resource: nodeFootprints,
  schema: nodeFootprintSpec,
  located: (settings) => settings.nodeFootprints,
  compile: compileFootprints,
  goOn: ({ footprints: before }) => ({ before }),
  faultsOf: ({ faults }) => faults.map(({ footprint: name, ...fault }) => ({ ...fault, name })),
};

/** @param onChange footprints came into force or ceased to be. */
export function createFootprintHub(
  onChange: (footprints: Footprints) => void,
): DocumentHub<NodeFootprintSpec, Footprints> {
  /** What footprints of this process have declared: the marks of one that is deleted have to come off. */
  let declared: readonly MarkSet[] = [];
  return new DocumentHub({
    kind: footprintDocuments,
    assemble({ before, unsettled, ...sources }) {
      const footprints = assembleDocuments(footprintDocuments, sources, {
        before: before?.footprints ?? [],
        declaredBefore: declared,
        unsettled,
      });
      if (footprints !== undefined) declared = [declaredFootprintPlaces(footprints)];
      return footprints;
    },
    reason: reasons.FootprintInForce,
    onChange,
  });
}
