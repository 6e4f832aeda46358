/** What the management plane needs in a cell, and whether its credential has it there. */
import {
  isApiError,
  type KubeClient,
  type PolicyRule,
  type Resource,
  selfSubjectAccessReviews,
} from "@berth/kube";
import { cellHomeRules, planeRules } from "../../fleet/permissions.ts";

/** One permission. */
export interface CellRight {
  readonly verb: string;
  readonly group: string;
  readonly plural: string;
  /** Default: all namespaces. */
  readonly namespace?: string | undefined;
}

/** @param namespace of Berth in the cell. Its Lease is there, and no other is read. */
export function rightsInCell(namespace: string): readonly CellRight[] {
  return [...rightsOf(planeRules.cell), ...rightsOf(cellHomeRules, namespace)];
}

function rightsOf(rules: readonly PolicyRule[], namespace?: string): readonly CellRight[] {
  return rules.flatMap(({ apiGroups = [], resources = [], verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((plural) => verbs.map((verb) => ({ verb, group, plural, namespace }))),
    ),
  );
}

/** `verb "list" on "leases.coordination.k8s.io" in namespace "berth-system"`, as other commands name permissions. */
export function rightText({ verb, plural, group, namespace }: CellRight): string {
  const what = group === "" ? plural : `${plural}.${group}`;
  return `verb "${verb}" on "${what}"${namespace === undefined ? "" : ` in namespace "${namespace}"`}`;
}

/** Asks the cell's own API server, so webhooks and other authorizers count. */
export async function missingRights(
  client: Pick<KubeClient, "create">,
  rights: readonly CellRight[],
  signal: AbortSignal,
): Promise<readonly CellRight[]> {
  const allowed = await Promise.all(
    rights.map(async ({ verb, plural: resource, group, namespace = "" }) => {
      const review = { spec: { resourceAttributes: { verb, group, resource, namespace } } };
      return (await client.create(selfSubjectAccessReviews, review, { signal })).status?.allowed === true;
    }),
  );
  return rights.filter((_, at) => allowed[at] !== true);
}

/** The kinds that the cell does not serve. */
export async function missingKinds(
  client: Pick<KubeClient, "read">,
  resources: readonly Resource[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const missing: string[] = [];
  for (const { group, version, plural, kind } of resources) {
    const served = await client.read(`/apis/${group}/${version}`, { signal }).catch((error: unknown) => {
      if (isApiError(error, "notFound")) return "{}";
      throw error;
    });
    const { resources: found = [] } = JSON.parse(served) as {
      readonly resources?: readonly { name?: string }[];
    };
    if (!found.some(({ name }) => name === plural)) missing.push(kind);
  }
  return missing;
}
