/** From `NodeFootprint` documents to footprints in force. */
import { isDeepStrictEqual } from "node:util";
import {
  compileByName,
  type DocumentRules,
  type FoundFault,
  type SourceDocuments,
  type Unsettled,
} from "@berth/host";
import { MARKS_ANNOTATION } from "../api/keys.ts";
import { reasons } from "../api/reasons.ts";
import { silencing } from "../api/warnings.ts";
import type { Policy, RemovalPolicy } from "../node/capability.ts";
import { annotationId, labelId } from "../node/mark.ts";
import type { MarkSet } from "../node/mark-set.ts";
import { selectorFaults } from "../node/selector.ts";
import { policySources, refusedRules } from "../node/sources.ts";
import { domainOf } from "../node/taint-domains.ts";
import { isProtectedKey } from "../node/validate.ts";
import { isAgentChecked } from "./agent/check.ts";
import { completeFootprint } from "./complete.ts";
import type { NodeFootprintSpec } from "./document.ts";
import type { Footprint, FootprintDocument, Footprints } from "./footprint.ts";
import { nodeFootprintKind } from "./resource.ts";

export interface CompileFootprintsInput {
  /** In order of precedence: of two footprints that want the same name or value the first is in force. */
  readonly sources: readonly SourceDocuments<FootprintDocument>[];
  /**
   * Footprints in force until now. A footprint whose document now has a fault stays in force as it was. Otherwise new
   * pods would wait forever for an agent that does not come.
   */
  readonly before?: Iterable<Footprint>;
  /** Places that footprints of this process declared before, so that Berth can remove the marks of a deleted one. */
  readonly declaredBefore?: Iterable<MarkSet>;
  /** Set while Berth has not read another source: a mark without a footprint here may belong to a footprint there. */
  readonly unsettled?: Unsettled | undefined;
}

/** NodeRestriction stops kubelets from setting labels of this domain and its subdomains. */
const NODE_RESTRICTION = "node-restriction.kubernetes.io";

/** Where capabilities of Berth keep their own state on nodes. */
const OWN_ANNOTATIONS: readonly string[] = [MARKS_ANNOTATION, "gate.berth.dev/"];

/**
 * Berth uses the last version without a fault of a document, if there is one. The first document of a name has it, even
 * with a fault: the second one would take over its marks.
 */
export function compileFootprints(input: CompileFootprintsInput): Footprints {
  const before = new Map(Array.from(input.before ?? [], (footprint) => [footprint.rule, footprint]));
  const { inForce: footprints, faults } = compileByName(input.sources, {
    reason: reasons.FootprintInvalid,
    keepsName: true,
    before: before.values(),
    check(document, rule) {
      const { footprint, faults: found } = completeFootprint(document, rule);
      return [
        ...found,
        ...faultsOfSelectors(document.spec),
        ...(footprint ? [...placeFaults(footprint), ...relabelFault(footprint, before.get(rule))] : []),
      ];
    },
    make(document, rule) {
      const { footprint } = completeFootprint(document, rule);
      return footprint && { ...footprint, ...silencing(document) };
    },
    clashes: clashesOf,
  });
  const policy = { ...policyOf(footprints, input), refused: refusedRules(footprints, faults) };
  return { footprints, policy, faults };
}

/** Refuses another label: the agent would end on every node before its DaemonSet asks for the new label. */
function relabelFault(footprint: Footprint, last: Footprint | undefined): readonly FoundFault[] {
  if (last === undefined || !isAgentChecked(last)) return [];
  const [now, before] = [footprint, last].map(({ label: { key, value } }) => `${key}=${value}`);
  if (now === before) return [];
  const message = `${before} cannot become ${now} while the agent selects it: give another footprint the new label, have the DaemonSet ask for it, and delete this one`;
  return [{ path: ["node", "label"], message }];
}

/** Finds values that footprints must not share, with their fields. */
function clashesOf(one: Footprint, before: readonly Footprint[]): readonly FoundFault[] {
  return SHARED.flatMap(({ path, isShared, say }): readonly FoundFault[] => {
    const other = before.find((it) => isShared(one, it));
    if (other === undefined) return [];
    const message = `${other.rule} ${say(one)}, came first, and stays in force`;
    return [{ path, reason: reasons.FootprintOverlap, message }];
  });
}

interface Shared {
  readonly path: FoundFault["path"];
  readonly isShared: (one: Footprint, other: Footprint) => boolean;
  /** What the other footprint does, for the message. */
  readonly say: (one: Footprint) => string;
}

const SHARED: readonly Shared[] = [
  {
    path: ["node", "label", "key"],
    isShared: (one, other) => one.label.key === other.label.key,
    say: ({ label }) => `wants the label ${label.key} as well`,
  },
  {
    path: ["node", "claims", "annotationPrefix"],
    isShared({ claims: { annotationPrefix: mine } = {} }, { claims: { annotationPrefix: its } = {} }) {
      return mine !== undefined && its !== undefined && (its.startsWith(mine) || mine.startsWith(its));
    },
    say: ({ claims }) => `claims by a prefix that Berth cannot tell from ${claims?.annotationPrefix}`,
  },
  {
    // A node selector can follow one label.
    path: ["agent", "daemonSet"],
    isShared: ({ agent }, other) => agent?.nodeSelector === "Manage" && isDeepStrictEqual(agent, other.agent),
    say: () => "manages this DaemonSet as well",
  },
];

function faultsOfSelectors({ workloads = [], node }: NodeFootprintSpec): readonly FoundFault[] {
  return [
    ...workloads.flatMap(({ podSelector = {}, namespaceSelector = {} }, at) => [
      ...selectorFaults(podSelector, ["workloads", at, "podSelector"]),
      ...selectorFaults(namespaceSelector, ["workloads", at, "namespaceSelector"]),
    ]),
    ...selectorFaults(node?.excludeSelector ?? {}, ["node", "excludeSelector"]),
  ];
}

/** Refuses places that Berth or Kubernetes uses for something else. */
function placeFaults({ label, claims, hold }: Footprint): readonly FoundFault[] {
  const faults: FoundFault[] = [];
  if (hold !== undefined && isProtectedKey(hold.finalizer)) {
    const message =
      "the domain is reserved for Kubernetes: Berth would release objects that its controllers protect";
    faults.push({ path: ["hold", "finalizer"], message });
  }
  if (isProtectedKey(label.key) && !isRestricted(label.key)) {
    const message = `the domain is reserved for Kubernetes, except ${NODE_RESTRICTION} and what ends with it`;
    faults.push({ path: ["node", "label", "key"], message });
  }
  const prefix = claims?.annotationPrefix;
  if (prefix === undefined) return faults;
  const report = (message: string): void => {
    faults.push({ path: ["node", "claims", "annotationPrefix"], message });
  };
  if (!prefix.includes("/")) report("must begin with a domain: keys of other writers begin without one");
  else if (isProtectedKey(prefix)) report("the domain is reserved for Kubernetes");
  else if (OWN_ANNOTATIONS.some((own) => own.startsWith(prefix) || prefix.startsWith(own)))
    report("Berth keeps its own state there");
  return faults;
}

function isRestricted(key: string): boolean {
  const domain = domainOf(key);
  return domain === NODE_RESTRICTION || domain.endsWith(`.${NODE_RESTRICTION}`);
}

function policyOf(
  footprints: readonly Footprint[],
  { sources, declaredBefore = [], unsettled }: CompileFootprintsInput,
): Policy {
  const declared = unionOf([...declaredBefore, ...footprints.map(placesOf)]);
  return {
    ...policySources(sources, unsettled, new Set(footprints.map(({ rule }) => rule))),
    declared,
    allowedProtected: declared,
    exclusive: unionOf(footprints.filter(({ foreign }) => foreign === "Reclaim").map(placesOf)),
    removals: new Map(footprints.flatMap(removalOf)),
  };
}

/** Where a footprint writes. */
export function placesOf({ label, claims }: Pick<Footprint, "label" | "claims">): MarkSet {
  return {
    ids: new Set([labelId(label.key)]),
    prefixes: claims === undefined ? [] : [annotationId(claims.annotationPrefix)],
  };
}

function removalOf({ rule, releaseDelayMs }: Footprint): readonly (readonly [string, RemovalPolicy])[] {
  return releaseDelayMs > 0 ? [[rule, { delayMs: releaseDelayMs }]] : [];
}

export const footprintRules: DocumentRules<NodeFootprintSpec, Footprints> = {
  kind: nodeFootprintKind,
  compile: ({ before, ...known }) =>
    compileFootprints({
      ...known,
      ...(before && { before: before.footprints, declaredBefore: [before.policy.declared] }),
    }),
  faultsOf: ({ faults }) => faults,
  resultOf: () => ({ ready: true, reason: reasons.FootprintInForce, message: "in force" }),
};

function unionOf(sets: readonly MarkSet[]): MarkSet {
  return {
    ids: new Set(sets.flatMap(({ ids }) => [...ids])),
    prefixes: [...new Set(sets.flatMap(({ prefixes }) => prefixes))],
  };
}
