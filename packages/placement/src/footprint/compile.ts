/** From `NodeFootprint` documents to footprints in force. */
import { isDeepStrictEqual } from "node:util";
import {
  type DocumentFault,
  type DocumentRules,
  ruleName,
  type SourceDocuments,
  type SourceName,
  type Unsettled,
} from "@berth/host";
import { MARKS_ANNOTATION } from "../api/keys.ts";
import { reasons } from "../api/reasons.ts";
import type { Policy, RemovalPolicy } from "../node/capability.ts";
import { annotationId, labelId } from "../node/mark.ts";
import type { MarkSet } from "../node/mark-set.ts";
import { selectorFaults } from "../node/selector.ts";
import { policySources, refusedRules } from "../node/sources.ts";
import { domainOf } from "../node/taint-domains.ts";
import { isProtectedKey } from "../node/validate.ts";
import { isAgentChecked } from "./agent/check.ts";
import { completeFootprint, type SpecFault } from "./complete.ts";
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

/** Total. Berth reports each document with a fault, and uses its last version without a fault, if there is one. */
export function compileFootprints(input: CompileFootprintsInput): Footprints {
  const before = new Map([...(input.before ?? [])].map((footprint) => [footprint.rule, footprint]));
  const { first, shadowed } = byName(input.sources.flatMap(readSource));
  const faultOf = ({ name, source }: ReadDocument, found: Found): DocumentFault => ({
    ...found,
    name,
    source,
  });
  const faults = shadowed.map((document) => faultOf(document, sameName(first, document)));
  const footprints: Footprint[] = [];
  for (const document of first) {
    const { footprint } = document;
    const last = before.get(document.rule);
    const found = [
      ...document.found,
      ...(footprint === undefined ? [] : clashesOf(footprint, footprints)),
      ...relabelFault(footprint, last),
    ];
    faults.push(...found.map((fault) => faultOf(document, fault)));
    const inForce = found.length === 0 ? footprint : last;
    if (inForce !== undefined && clashesOf(inForce, footprints).length === 0) footprints.push(inForce);
  }
  const policy = { ...policyOf(footprints, input), refused: refusedRules(footprints, faults) };
  return { footprints, policy, faults };
}

/** Refuses another label: the agent would end on every node before its DaemonSet asks for the new label. */
function relabelFault(footprint: Footprint | undefined, last: Footprint | undefined): readonly Found[] {
  if (footprint === undefined || last === undefined || !isAgentChecked(last)) return [];
  const [now, before] = [footprint, last].map(({ label: { key, value } }) => `${key}=${value}`);
  if (now === before) return [];
  const message = `${before} cannot become ${now} while the agent selects it: give another footprint the new label, have the DaemonSet ask for it, and delete this one`;
  return [{ path: ["node", "label"], reason: reasons.FootprintInvalid, message }];
}

type Found = Pick<DocumentFault, "path" | "reason" | "message">;

/** `footprint` is absent when the document is unreadable or `completeFootprint` found a fault. */
interface ReadDocument {
  readonly name: string;
  readonly source: SourceName;
  readonly rule: string;
  readonly found: readonly Found[];
  readonly footprint?: Footprint;
}

function readSource({
  source,
  documents,
  unreadable = [],
}: SourceDocuments<FootprintDocument>): readonly ReadDocument[] {
  const of = (name: string) => ({ name, source, rule: ruleName(source, name) });
  const invalid = (fault: SpecFault): Found => ({ ...fault, reason: reasons.FootprintInvalid });
  return [
    ...unreadable.map(({ name, message }) => ({ ...of(name), found: [invalid({ path: [], message })] })),
    ...documents.map((document) => {
      const { footprint, faults } = completeFootprint(document, ruleName(source, document.name));
      const found = [
        ...faults,
        ...faultsOfSelectors(document.spec),
        ...(footprint ? placeFaults(footprint) : []),
      ];
      return { ...of(document.name), found: found.map(invalid), ...(footprint && { footprint }) };
    }),
  ];
}

/** The first document of a name wins, even with a fault. Otherwise the second one would take over its marks. */
function byName(documents: readonly ReadDocument[]): {
  readonly first: readonly ReadDocument[];
  readonly shadowed: readonly ReadDocument[];
} {
  const first = new Map<string, ReadDocument>();
  for (const document of documents) if (!first.has(document.name)) first.set(document.name, document);
  const shadowed = documents.filter((document) => first.get(document.name) !== document);
  return { first: [...first.values()], shadowed };
}

function sameName(first: readonly ReadDocument[], { name }: ReadDocument): Found {
  const rule = first.find((it) => it.name === name)?.rule ?? name;
  const message = `${rule} has the same name and goes before it`;
  return { path: [], reason: reasons.FootprintInvalid, message };
}

/** Finds values that footprints must not share, with their fields. @param before those in force that came first. */
function clashesOf(one: Footprint, before: readonly Footprint[]): readonly Found[] {
  return SHARED.flatMap(({ path, isShared, say }): readonly Found[] => {
    const other = before.find((it) => isShared(one, it));
    if (other === undefined) return [];
    const message = `${other.rule} ${say(one)}, came first, and stays in force`;
    return [{ path, reason: reasons.FootprintOverlap, message }];
  });
}

interface Shared {
  readonly path: Found["path"];
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

function faultsOfSelectors({ workloads = [], node }: NodeFootprintSpec): readonly SpecFault[] {
  return [
    ...workloads.flatMap(({ podSelector = {}, namespaceSelector = {} }, at) => [
      ...selectorFaults(podSelector, ["workloads", at, "podSelector"]),
      ...selectorFaults(namespaceSelector, ["workloads", at, "namespaceSelector"]),
    ]),
    ...selectorFaults(node?.excludeSelector ?? {}, ["node", "excludeSelector"]),
  ];
}

/** Refuses places that Berth or Kubernetes uses for something else. */
function placeFaults({ label, claims, hold }: Footprint): readonly SpecFault[] {
  const faults: SpecFault[] = [];
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
