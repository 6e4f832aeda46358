/** Warnings to a user who stores a document in the cluster: what `validate` says of such a document in a file. */
import type { Resource } from "@berth/kube";
import type { AdmissionRequest } from "@berth/runtime";
import type { DocumentObject } from "../documents/document-kind.ts";
import type { AdmissionRules, BoundRules } from "./rules.ts";

/** The documents of one kind, as a review needs them. */
export interface ReviewedKind {
  readonly resource: Pick<Resource, "group" | "version" | "plural">;
  /** One sentence for each fault or warning about this object, were it stored. */
  readonly remarksOn: (object: DocumentObject) => readonly string[];
}

export const documentReviews: Pick<AdmissionRules<never>, "name" | "effect"> = {
  name: "documents",
  effect: "validate",
};

/** A user waits for the answer, which is only advice. */
const TIMEOUT_SECONDS = 2;

/** Berth itself writes statuses alone, which the rule leaves out. Labels and managed fields say nothing to Berth. */
const CHANGED =
  'request.operation == "CREATE" || object.?spec != oldObject.?spec || object.metadata.?annotations != oldObject.metadata.?annotations';

/**
 * Denies nothing, and no document is refused while Berth does not answer.
 *
 * @param isServed does the API server ask Berth about anything else? Warnings alone are not worth a server and its
 * certificates. `undefined`: it is not known yet.
 */
export function documentWarnings(
  kinds: readonly ReviewedKind[],
  isServed: () => boolean | undefined,
): BoundRules {
  const valuesOf = (of: (resource: ReviewedKind["resource"]) => string): readonly string[] =>
    [...new Set(kinds.map(({ resource }) => of(resource)))].sort();
  return {
    ...documentReviews,
    texts: {
      asked: "the API server asks about documents",
      off: "documents are stored without warnings",
    },
    read: () => (isServed() === undefined ? "reading" : "read"),
    reviews: [
      {
        name: "warnings",
        path: "/validate-documents",
        rule: {
          apiGroups: valuesOf(({ group }) => group),
          apiVersions: valuesOf(({ version }) => version),
          operations: ["CREATE", "UPDATE"],
          resources: valuesOf(({ plural }) => plural),
        },
        failurePolicy: () => "Ignore",
        when: () =>
          isServed()
            ? {
                timeoutSeconds: TIMEOUT_SECONDS,
                matchConditions: [{ name: "changed", expression: CHANGED }],
              }
            : undefined,
        answer: (request) => ({ allowed: true, warnings: warningsOf(kinds, request) }),
      },
    ],
  };
}

function warningsOf(
  kinds: readonly ReviewedKind[],
  { resource: asked, object }: AdmissionRequest,
): readonly string[] {
  const kind = kinds.find(
    ({ resource }) => resource.plural === asked.resource && resource.group === asked.group,
  );
  const document = readDocument(object);
  return document === undefined ? [] : (kind?.remarksOn(document) ?? []);
}

/** S-6: a longer one, as JSON, is stored without warnings. To compile it could take long. */
const MAX_LENGTH = 16 * 1024;

/** What documents are compiled from. Any client that reaches the port may send one, so nothing is taken for granted. */
function readDocument(object: unknown): DocumentObject | undefined {
  const { metadata, spec } = Object(object) as Readonly<Record<string, unknown>>;
  const { name, annotations } = Object(metadata) as Readonly<Record<string, unknown>>;
  if (typeof name !== "string" || JSON.stringify([annotations, spec]).length > MAX_LENGTH) return undefined;
  const texts = Object.entries(Object(annotations)).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  return { metadata: { name, annotations: Object.fromEntries(texts) }, spec };
}
