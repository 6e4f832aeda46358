/** A capability as a value. The host knows no capability by name. */
import type { PolicyRule, Resource } from "@berth/kube";
import type { AdmissionRules } from "./admission/rules.ts";
import type { Documents } from "./documents/config-files.ts";
import type { CustomKind, DocumentKind, KindList } from "./documents/document-kind.ts";
import type { Host } from "./host.ts";
import type { DocumentFiles } from "./once/documents.ts";
import type { OneShotRun, Section } from "./once/run.ts";

/** `H` is the type of the host, and `W` the result of `wire`. */
export interface Capability<H = Host, W = unknown> {
  /** Stored in the objects that it writes, so it must never change: `startup-gate`. */
  readonly name: string;
  readonly kinds: readonly DocumentKind[];
  /** Kinds that it serves on request, such as those of other projects. Default none. */
  readonly foreignKinds?: readonly CustomKind[];
  /** The admission rules that it may add to the host: `clean` removes their objects. Default none. */
  readonly admission?: readonly AdmissionTrace[];
  /** What it changes of objects that others make. Default nothing. */
  readonly changes?: Changes;
  /** Permissions beyond those for its kinds, as an installation grants them. Default none. */
  readonly permissions?: (asked: AskedPermissions) => readonly Permission[];
  /** Adds its components to the host. No request is sent and no component runs before the host runs. */
  readonly wire: (host: H) => W;
  /** What it would change now, by one look at the cluster. See `planOnce`. Default: nothing. */
  readonly plan?: (look: Look) => Promise<Section>;
  /** What it says about one object. `undefined`: it is about no such object. See `explainOnce`. */
  readonly explain?: (look: Look, of: NamedObject) => Promise<Section | undefined>;
}

/** Names the objects of admission rules in the API server. With `policies` the rules also exist in CEL. */
export type AdmissionTrace = Pick<AdmissionRules<never>, "name" | "effect" | "policies">;

/** RBAC cannot limit a right to patch to these. A policy does: see `berth manifests`. */
export interface Changes {
  readonly fields: readonly {
    readonly resource: Pick<Resource, "group" | "plural" | "kind">;
    /** `spec.affinity.nodeAffinity` */
    readonly paths: readonly string[];
  }[];
  /** Scheduling gates that it takes off pods. Default none. */
  readonly schedulingGates?: readonly string[];
  /** Types of conditions that it sets in statuses. Default none. */
  readonly conditions?: readonly string[];
}

export interface NamedObject {
  readonly namespace?: string;
  readonly name: string;
}

/** What a command gives to a capability that looks once. */
export interface Look {
  readonly run: OneShotRun;
  readonly files: DocumentFiles;
}

/** Inputs for the permissions of an installation. */
export interface AskedPermissions {
  /** Name of the installation's objects in the API server, `berth`. */
  readonly name: string;
  readonly documents: Documents;
  /** Rights that the user requests by flag, such as `pullSecrets`. */
  readonly flags: ReadonlySet<string>;
}

/** A permission that a capability needs in a cluster. */
export interface Permission {
  readonly rule: PolicyRule;
  /**
   * Suffix of the ClusterRole's name, so that the user can leave a role out. Default: the role of every installation.
   * `namespace`: a Role only in the namespace of the installation.
   */
  readonly role?: string;
  /** An unusual right, described for the person who installs Berth: `delete jobs (NodeFootprint a)`. */
  readonly unusual?: string;
}

/** Merges rules that differ only in their object names. */
export function mergeRules(permissions: readonly Permission[]): readonly PolicyRule[] {
  const merged = new Map<string, PolicyRule>();
  for (const { rule } of permissions) {
    const { resourceNames: names, ...rest } = rule;
    const key = JSON.stringify([rest, names === undefined]);
    const all = new Set([...(merged.get(key)?.resourceNames ?? []), ...(names ?? [])]);
    merged.set(key, names === undefined ? rule : { ...rule, resourceNames: [...all] });
  }
  return [...merged.values()];
}

/** All document kinds of these capabilities. @param more kinds that belong to no capability. */
export function kindsOf(
  apiVersion: string,
  capabilities: readonly Pick<Capability<never>, "kinds">[],
  more: readonly DocumentKind[] = [],
): KindList {
  return { apiVersion, kinds: [...capabilities.flatMap(({ kinds }) => kinds), ...more] };
}
