/** A source of documents of one kind, with documents for it. */
import { type DocumentObject, type DocumentRules, DocumentSource, type LocatedDocument } from "@berth/host";
import { apiVersionOf } from "@berth/kube";

export interface DocumentStage<S, T> {
  readonly source: DocumentSource<S, T>;
  /** How often documents came into force or ceased to be. */
  readonly changes: () => number;
  readonly ofCluster: (name: string, spec?: object, generation?: number) => Required<DocumentObject>;
  readonly ofFile: (name: string, spec?: object) => LocatedDocument<S>;
  readonly setCluster: (...objects: readonly DocumentObject[]) => void;
}

/** @param spec of a document that is in order, where no other is given. */
export function createDocumentStage<S, T>(rules: DocumentRules<S, T>, spec: object): DocumentStage<S, T> {
  const { kind } = rules;
  const { resource } = kind;
  let changes = 0;
  const source = new DocumentSource(rules, () => {
    changes += 1;
  });
  return {
    source,
    changes: () => changes,
    ofCluster: (name, given = spec, generation = 1) => ({
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: { name, uid: name, generation },
      spec: given,
    }),
    ofFile: (name, given = spec) => ({
      kind,
      name,
      spec: kind.spec.parse(given),
      annotations: {},
      file: "documents.yaml",
      line: 1,
      column: 1,
      positionOf: () => ({ line: 7, column: 3 }),
    }),
    setCluster: (...objects) => source.setCluster({ objects }),
  };
}
