/** A whole capability from one decision: its process carries it out, and `plan` and `explain` ask the same one. */
import { type KubeObject, pathOf, type Resource } from "@berth/kube";
import { keyOf } from "@berth/runtime";
import type { Capability, Look, NamedObject } from "../capability.ts";
import type { DocumentObject, ServedKind } from "../documents/document-kind.ts";
import type { DocumentRules } from "../documents/document-source.ts";
import type { Document } from "../documents/read-documents.ts";
import type { DocumentFault } from "../documents/sources.ts";
import { readInForce } from "../once/documents.ts";
import { eachObject } from "../once/listing.ts";
import type { Section } from "../once/run.ts";
import { createObjectController, type ObjectDecision } from "./controller.ts";

export interface ObjectCapability<S, T extends KubeObject> extends Pick<Capability, "name" | "permissions"> {
  readonly kind: ServedKind<S>;
  /** The objects that it decides about. */
  readonly resource: Resource<T>;
  /**
   * Pure: what this object needs. @param documents all without a fault, those of files first. It is called again when
   * they change. @returns `undefined`: nothing, so that nothing is written.
   */
  decide(object: T, documents: readonly Document<S>[]): ObjectDecision | undefined;
}

/** Every document that fits its schema is in force as it is. */
export function objectCapability<S, T extends KubeObject>(rules: ObjectCapability<S, T>): Capability {
  const { name, kind, resource, permissions } = rules;
  const ofKind: DocumentRules<S, InForce<S>> = {
    kind,
    compile: ({ sources, cluster }) => ({
      documents: sources.flatMap(({ documents }) => documents),
      faults: (cluster?.unreadable ?? []).map((it) =>
        Object.assign({ source: "cluster", path: [], reason: "SpecInvalid" }, it),
      ),
    }),
    faultsOf: ({ faults }) => faults,
    resultOf: () => ({ ready: true, reason: "InForce", message: "in force" }),
  };
  /** What is due now: a line for each change of an object, none for an object that needs nothing. */
  const lookAt = async ({ run, files }: Look, of?: NamedObject): Promise<readonly Due[]> => {
    const { inForce } = await readInForce(ofKind, files, run);
    const fieldSelector = of && `metadata.name=${of.name}`;
    const scope = {
      ...(fieldSelector && { fieldSelector }),
      ...(of?.namespace && { namespace: of.namespace }),
    };
    const due: Due[] = [];
    await eachObject({ resource, ...scope }, run, (object) => {
      const { intents = [] } = rules.decide(object, inForce?.documents ?? []) ?? {};
      const changes = intents.map(({ do: how, reason, message }) => ({ do: how, reason, message }));
      due.push({ object: pathOf(object.metadata).replace(/^\//, ""), changes });
    });
    return due;
  };
  return {
    name,
    kinds: [kind],
    ...(permissions && { permissions }),
    wire(host) {
      const objects = host.runtime.informer(resource);
      const documents = host.documents<S, InForce<S>, DocumentObject, object>({
        rules: ofKind,
        onChange() {
          for (const object of objects.list())
            controller.enqueue(keyOf(host.cluster, object), { priority: "low" });
        },
      });
      const controller = createObjectController<T, unknown, ObjectDecision>({
        ...host,
        name,
        action: `Keep${resource.kind}`,
        resource,
        informer: objects,
        decide: (object) => documents.inForce && rules.decide(object, documents.inForce.documents),
      });
      host.add([controller], "elected");
    },
    plan: async (look) =>
      sectionOf(
        name,
        (await lookAt(look)).filter(({ changes }) => changes.length > 0),
      ),
    async explain(look, of) {
      const due = await lookAt(look, of);
      return due.length === 0 ? undefined : sectionOf(name, due);
    },
  };
}

interface InForce<S> {
  readonly documents: readonly Document<S>[];
  readonly faults: readonly DocumentFault[];
}

interface Due {
  readonly object: string;
  readonly changes: readonly { readonly do: string; readonly reason: string; readonly message: string }[];
}

function sectionOf(name: string, due: readonly Due[]): Section {
  const linesOf = ({ object, changes }: Due): readonly string[] =>
    changes.length === 0
      ? [`${object}: nothing to change\n`]
      : changes.map(({ reason, message, do: how }) => `${object}: ${how}: ${reason}: ${message}\n`);
  return { data: { [name]: due }, blocks: () => due.flatMap(linesOf) };
}
