import type { BaseStatus, DocumentFault, DocumentObject, HeldDocuments, HeldKind } from "@berth/host";
import { createDocumentGauges, type DocumentGauges } from "./document-gauges.ts";
import type { NodeCounts } from "./pass.ts";
import type { NodeHost } from "./wired.ts";

/** Documents of rules for nodes. */
export interface NodeDocuments<S, C, T extends DocumentObject, St extends BaseStatus>
  extends HeldKind<S, C, T, St> {
  readonly gauges: DocumentGauges;
  /** For the gauges. */
  readonly count: (inForce: C) => number;
  readonly faults: (inForce: C) => readonly Pick<DocumentFault, "reason">[];
  readonly counts: Pick<NodeCounts<unknown>, "check">;
}

/** When they change, every node is decided again. Statuses get counts once every node has been decided. */
export function followNodeDocuments<
  S,
  C,
  T extends DocumentObject & { readonly status?: St },
  St extends BaseStatus,
>(host: NodeHost, held: NodeDocuments<S, C, T, St>): HeldDocuments<S, C, T> {
  const { gauges, count, faults, counts } = held;
  const taken = createDocumentGauges(host.metrics, gauges);
  return host.documents<S, C, T, St>({
    ...held,
    onChange(inForce) {
      taken(count(inForce), faults(inForce));
      held.onChange(inForce);
      host.recheckAll();
      // A cluster without nodes makes no decisions, so the pass may be complete already.
      counts.check();
    },
    onKnown() {
      held.onKnown?.();
      counts.check();
    },
  });
}
