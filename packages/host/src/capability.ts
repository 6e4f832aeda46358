/** A capability as a value: everything about one concern, for a host that knows none of them by name. */
import type { PolicyRule } from "@berth/kube";
import type { Documents } from "./documents/config-files.ts";
import type { CustomKind, DocumentKind, KindList } from "./documents/document-kind.ts";
import type { Host } from "./host.ts";

/** `H` is the host that it needs, and `W` what it answers when it is wired. */
export interface Capability<H = Host, W = unknown> {
  /** Recorded on what it writes, so it never changes: `startup-gate`. */
  readonly name: string;
  /** The kinds of documents that it reads. */
  readonly kinds: readonly DocumentKind[];
  /** Kinds of other projects that it serves where it is asked to. Default none. */
  readonly foreignKinds?: readonly CustomKind[];
  /** Default: none beside those of its kinds. */
  readonly permissions?: (asked: AskedPermissions) => readonly Permission[];
  /** Adds its parts to the host. Nothing is sent and nothing runs before the host does. */
  readonly wire: (host: H) => W;
}

/** What decides on the permissions of an installation. */
export interface AskedPermissions {
  /** Of the objects of the installation in the API server, `berth`. */
  readonly name: string;
  readonly documents: Documents;
  /** What is asked for by flag, such as `pullSecrets`. */
  readonly flags: ReadonlySet<string>;
}

/** Something that a capability may do in a cluster. */
export interface Permission {
  readonly rule: PolicyRule;
  /**
   * The end of the name of its ClusterRole, so that a role can be left out. Default: what everybody has. `namespace`: only in
   * the namespace of the installation.
   */
  readonly role?: string;
  /** What is more than usual, for whoever installs it: `delete jobs (NodeFootprint a)`. */
  readonly unusual?: string;
}

/** Rules without repetition: names of objects with equal rights become one rule. */
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

/** All kinds of documents of these capabilities. @param more kinds that belong to no capability. */
export function kindsOf(
  apiVersion: string,
  capabilities: readonly Pick<Capability<never>, "kinds">[],
  more: readonly DocumentKind[] = [],
): KindList {
  return { apiVersion, kinds: [...capabilities.flatMap(({ kinds }) => kinds), ...more] };
}
