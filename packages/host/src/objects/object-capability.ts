/** A whole capability from one decision: its process carries it out, and `plan` and `explain` ask the same one. */
import type { KubeObject, Resource } from "@berth/kube";
import { keyOf } from "@berth/runtime";
import type { Capability, Look, NamedObject } from "../capability.ts";
import type { DocumentObject, ServedKind } from "../documents/document-kind.ts";
import type { DocumentRules } from "../documents/document-source.ts";
import type { Document } from "../documents/read-documents.ts";
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

/** Every document without a fault is in force as it is. */
export function objectCapability<S, T extends KubeObject>(rules: ObjectCapability<S, T>): Capability {
  const { name, kind, resource, permissions } = rules;
  const ofKind: DocumentRules<S, readonly Document<S>[]> = {
    kind,
    compile: ({ sources }) => sources.flatMap(({ documents }) => documents),
    faultsOf: () => [],
    resultOf: () => ({ ready: true, reason: "InForce", message: "in force" }),
  };
  /** Each change that is due now, of one object or of all. */
  const changesOnce = async ({ run, files }: Look, of?: NamedObject): Promise<ChangesOnce> => {
    const { inForce = [] } = await readInForce(ofKind, files, run);
    const found: ChangesOnce = { seen: 0, changes: [] };
    const scope = of && {
      fieldSelector: `metadata.name=${of.name}`,
      ...(of.namespace && { namespace: of.namespace }),
    };
    await eachObject({ resource, ...scope }, run, (object) => {
      found.seen++;
      const { namespace, name: of = "" } = object.metadata ?? {};
      for (const { do: how, reason, message } of rules.decide(object, inForce)?.intents ?? [])
        found.changes.push({
          object: namespace === undefined ? of : `${namespace}/${of}`,
          do: how,
          reason,
          message,
        });
    });
    return found;
  };
  return {
    name,
    kinds: [kind],
    ...(permissions && { permissions }),
    wire(host) {
      const objects = host.runtime.informer(resource);
      const documents = host.documents<S, readonly Document<S>[], DocumentObject, object>({
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
        decide: (object) => documents.inForce && rules.decide(object, documents.inForce),
      });
      host.add([controller], "elected");
    },
    plan: async (look) => sectionOf(name, (await changesOnce(look)).changes),
    async explain(look, of) {
      const { seen, changes } = await changesOnce(look, of);
      return seen === 0 ? undefined : sectionOf(name, changes, `${of.name}: nothing to change\n`);
    },
  };
}

interface ChangesOnce {
  seen: number;
  readonly changes: {
    readonly object: string;
    readonly do: string;
    readonly reason: string;
    readonly message: string;
  }[];
}

function sectionOf(name: string, changes: ChangesOnce["changes"], without = ""): Section {
  const lines = changes.map(
    ({ object, reason, message, do: how }) => `${object}: ${how}: ${reason}: ${message}\n`,
  );
  return {
    data: { [name]: changes },
    blocks: () => [lines.join("") || without].filter((block) => block !== ""),
  };
}
