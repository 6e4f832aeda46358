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
import { policySources } from "../node/sources.ts";
import { domainOf } from "../node/taint-domains.ts";
import { isProtectedKey } from "../node/validate.ts";
import { isAgentChecked } from "./agent/check.ts";
import { completeFootprint, type SpecFault } from "./complete.ts";
import type { NodeFootprintSpec } from "./document.ts";
import type { Footprint, FootprintDocument, Footprints } from "./footprint.ts";
import { nodeFootprintKind } from "./resource.ts";

export interface CompileFootprintsInput {
  /** In order of precedence: of two footprints with one name the first is in force. */
  readonly sources: readonly SourceDocuments<FootprintDocument>[];
  /**
   * Footprints as they were in force until now. One whose document has got a fault goes on as it was: without it new pods
   * would wait for ever for an agent that does not come.
   */
  readonly before?: Iterable<Footprint>;
  /** Places that footprints of this process have declared before, so that those of a deleted one can be taken off. */
  readonly declaredBefore?: Iterable<MarkSet>;
  /** Another source may still be read: a mark whose footprint is in none of these may be of one there. */
  readonly unsettled?: Unsettled | undefined;
}

/** NodeRestriction keeps kubelets from labels of this domain and of those below it, and from nothing else. */
const NODE_RESTRICTION = "node-restriction.kubernetes.io";

/** Where capabilities of Berth keep their own state on nodes. */
const OWN_ANNOTATIONS: readonly string[] = [MARKS_ANNOTATION, "gate.berth.dev/"];

/** Total: a document with a fault is reported and not in force, or in force as it was before; the others are. */
export function compileFootprints(input: CompileFootprintsInput): Footprints {
  const before = new Map([...(input.before ?? [])].map((footprint) => [footprint.rule, footprint]));
  const { first, shadowed } = byName(input.sources.flatMap(readSource));
  const clashes = clashesOf(first.flatMap(({ footprint }) => footprint ?? []));
  const faultOf = ({ name, source }: ReadDocument, found: Found): DocumentFault => ({
    ...found,
    name,
    source,
  });
  const faults = shadowed.map((document) => faultOf(document, sameName(first, document)));
  const sound: Footprint[] = [];
  const continued: Footprint[] = [];
  for (const document of first) {
    const last = before.get(document.rule);
    const found = [
      ...document.found,
      ...(clashes.get(document.rule) ?? []),
      ...relabelFault(document.footprint, last),
    ];
    faults.push(...found.map((fault) => faultOf(document, fault)));
    if (found.length > 0) continued.push(...(last === undefined ? [] : [last]));
    else if (document.footprint !== undefined) sound.push(document.footprint);
  }
  // Those that go on were in force together and share nothing, but what they have may have been given to others since.
  const lost = clashesOf([...sound, ...continued]);
  const footprints = [...sound, ...continued.filter(({ rule }) => !lost.has(rule))];
  footprints.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { footprints, policy: policyOf(footprints, input), faults };
}

/** The agent would end on every node before its DaemonSet asks for the new label. */
function relabelFault(footprint: Footprint | undefined, last: Footprint | undefined): readonly Found[] {
  if (footprint === undefined || last === undefined || !isAgentChecked(last)) return [];
  const [now, before] = [footprint, last].map(({ label: { key, value } }) => `${key}=${value}`);
  if (now === before) return [];
  const message = `${before} cannot become ${now} while the agent goes by it: give another footprint the new label, have the DaemonSet ask for it, and delete this one`;
  return [{ path: ["node", "label"], reason: reasons.FootprintInvalid, message }];
}

type Found = Pick<DocumentFault, "path" | "reason" | "message">;

/** `footprint` is absent when it cannot be made ready. */
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

/** Of several with one name the first counts, be it that it has a fault: the other would take its marks over unasked. */
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

/** What footprints must not share, with the field that gives it. A prefix clashes with what begins with it. */
function clashesOf(footprints: readonly Footprint[]): ReadonlyMap<string, readonly Found[]> {
  const clashes = new Map<string, readonly Found[]>();
  for (const one of footprints) {
    const found = SHARED.flatMap(({ path, isShared, say }): readonly Found[] => {
      const [other, ...more] = footprints.filter((it) => it !== one && isShared(one, it));
      if (other === undefined) return [];
      // Names the first of them: each says the same.
      const others = more.length === 0 ? "" : `, and so of ${more.length} more`;
      const message = `${other.rule} ${say(one)}${others}: none of them is taken up`;
      return [{ path, reason: reasons.FootprintOverlap, message }];
    });
    if (found.length > 0) clashes.set(one.rule, found);
  }
  return clashes;
}

interface Shared {
  readonly path: Found["path"];
  readonly isShared: (one: Footprint, other: Footprint) => boolean;
  /** What the other does. */
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
    say: ({ claims }) => `claims by a prefix that cannot be told from ${claims?.annotationPrefix}`,
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

/** Places that Berth, or Kubernetes, has other uses for. */
function placeFaults({ label, claims, hold }: Footprint): readonly SpecFault[] {
  const faults: SpecFault[] = [];
  if (hold !== undefined && isProtectedKey(hold.finalizer)) {
    const message = "the domain is reserved for Kubernetes: what its own controllers protect would be let go";
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
  if (!prefix.includes("/")) report("has to begin with a domain: without one it is how keys of others begin");
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
