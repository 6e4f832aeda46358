/** A hub of documents of one kind, with documents for it. */
import { apiVersionOf } from "@berth/kube";
import type { LocatedSpec } from "../config/settings.ts";
import type { DocumentHub } from "../document-hub.ts";
import type { DocumentKind } from "../document-kind.ts";
import type { DocumentObject } from "../source-documents.ts";

export interface DocumentStage<S, T> {
  readonly hub: DocumentHub<S, T>;
  /** How often documents came into force or ceased to be. */
  readonly changes: () => number;
  readonly ofCluster: (name: string, spec?: object, generation?: number) => Required<DocumentObject>;
  readonly ofFile: (name: string, spec?: object) => LocatedSpec<S>;
  readonly setCluster: (...objects: readonly DocumentObject[]) => void;
}

/** @param spec of a document that is in order, where no other is given. */
export function createDocumentStage<S, T>(
  { resource, schema }: Pick<DocumentKind<S, T, never>, "resource" | "schema">,
  spec: object,
  create: (onChange: () => void) => DocumentHub<S, T>,
): DocumentStage<S, T> {
  let changes = 0;
  const hub = create(() => {
    changes += 1;
  });
  return {
    hub,
    changes: () => changes,
    ofCluster: (name, given = spec, generation = 1) => ({
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: { name, uid: name, generation },
      spec: given,
    }),
    ofFile: (name, given = spec) => ({
      name,
      spec: schema.parse(given),
      annotations: {},
      file: "documents.yaml",
      line: 1,
      column: 1,
      positionOf: () => ({ line: 7, column: 3 }),
    }),
    setCluster: (...objects) => hub.setCluster({ objects }),
  };
}
