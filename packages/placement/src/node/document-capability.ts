/**
 * A whole capability from one decision: its process carries it out, and `plan` and `explain` ask the same one. Every
 * replica compiles documents and reads; only the leader decides, counts and writes.
 */
import {
  type Concerns,
  createViews,
  type DocumentRules,
  type HeldDocuments,
  type Reads,
  readViews,
  Tally,
  toCondition,
  type Views,
} from "@berth/host";
import type { Served } from "../api/served.ts";
import { type BoundCapability, bindCapability, type NodeRules, type NodeView } from "./capability.ts";
import type { DocumentGauges } from "./document-gauges.ts";
import { followNodeDocuments } from "./documents.ts";
import type { NodeObserver } from "./observer.ts";
import { type LookAt, podsOn, type SeenCapability } from "./once.ts";
import { onceCapability } from "./once-capability.ts";
import { NodeCounts } from "./pass.ts";
import type { NodeCapability, NodeHost } from "./wired.ts";

/**
 * @typeParam C the documents in force. @typeParam V what is decided from. @typeParam M the objects of the reads.
 * @typeParam P the phases of a node.
 */
export interface DocumentCapability<S, C, V extends NodeView, M, P extends string>
  extends Pick<NodeCapability, "fields" | "changed" | "permissions"> {
  readonly documents: DocumentRules<S, C>;
  readonly rules: NodeRules<C, V>;
  /** `plan` lists them all, `explain node` only the pods of the node, `clean` nothing. */
  readonly reads: Reads<M, C | undefined>;
  /** The nodes to decide about again. Not asked about the first snapshot: then every node is decided. */
  readonly concerns: Concerns<M, string>;
  readonly observe: (view: NodeView, views: Views<M>) => V;
  /** As in `RuleOutcome`. The status has a field for each, with the number of nodes once all have been decided. */
  readonly phases: readonly P[];
  /** `nodes` has the phase as its label. */
  readonly gauges: DocumentGauges & Readonly<Record<"nodes", DocumentGauges["inForce"]>>;
}

export function documentCapability<S, C, V extends NodeView, M, P extends string>(
  declared: DocumentCapability<S, C, V, M, P>,
): NodeCapability {
  const { documents, rules, reads, observe, fields, changed, permissions } = declared;
  const bind = (config: () => C | undefined, views: Views<M>): BoundCapability =>
    bindCapability(rules, { config, observe: (view) => observe(view, views) });
  const look = async (inForce: C | undefined, { run, owned, only }: LookAt): Promise<SeenCapability> => {
    const informers = only === undefined ? run.informers : podsOn(only, run.informers);
    const views = await readViews(reads, inForce, { run, owned, informers });
    return { capability: bind(() => inForce, views) };
  };
  return {
    name: rules.name,
    kinds: [documents.kind],
    ...(fields && { fields }),
    ...(changed && { changed }),
    ...(permissions && { permissions }),
    once: () =>
      onceCapability(documents, {
        plan: look,
        explain: look,
        clean(inForce) {
          const places = inForce && rules.policy(inForce).places;
          return Promise.resolve(places ? { declared: places } : {});
        },
      }),
    wire(host) {
      const views = createViews<M, C | undefined, string>(reads, {
        ...host,
        concerns: declared.concerns,
        onKeys(names) {
          for (const name of names) host.recheck(name);
        },
        onAll: () => host.recheckAll(),
      });
      host.add(views.components, "caches");
      const { held, observer } = follow(host, declared, (inForce) => views.want(inForce));
      return { capability: bind(() => held.inForce, views), observer };
    },
  };
}

type Counts<P extends string> = Readonly<Record<P, number>>;

/** Follows the documents. Their statuses and a gauge count nodes by phase. */
function follow<S, C, V extends NodeView, M, P extends string>(
  host: NodeHost,
  { documents: rules, rules: decider, phases, gauges }: DocumentCapability<S, C, V, M, P>,
  onChange: (inForce: C) => void,
): { readonly observer: NodeObserver; readonly held: HeldDocuments<S, C, Served<Counts<P>>> } {
  const { name } = decider;
  const tally = new Tally<P>({ onChange: (rule) => held.askRule(rule) });
  const counts = new NodeCounts<Counts<P>>({
    nodes: host.nodes,
    onDone: () => held.askAll(),
    tally: {
      decided(node, { contributions }) {
        const ours = contributions.find(({ capability }) => capability === name)?.decision;
        const stakes = (ours?.outcomes ?? []).map(({ rule, phase }) => ({
          rule,
          phases: phases.filter((it) => it === phase),
        }));
        tally.put(node, stakes);
      },
      gone: (node) => tally.put(node, []),
      counts: (rule) => {
        const sizes = phases.map((phase) => [phase, tally.of(rule, phase).size]);
        return Object.fromEntries(sizes) as Counts<P>;
      },
    },
  });
  host.metrics.gauge({
    ...gauges.nodes,
    labels: ["phase"],
    collect(gauge) {
      for (const phase of phases) gauge.set(tally.total(phase), { phase });
    },
  });
  const held: HeldDocuments<S, C, Served<Counts<P>>> = followNodeDocuments(host, {
    rules,
    capability: name,
    gauges,
    count: (inForce) => decider.policy(inForce).rules.size,
    faults: rules.faultsOf,
    counts,
    onChange,
    decide: ({ status }: Served<Counts<P>>, result, rule) => ({
      conditions: [toCondition("Ready", result)],
      rest: { ...status, ...counts.of(rule) } as Counts<P>,
      isNews: ({ status: is }, present) => is === "False" || present?.status === "False",
    }),
  });
  return { held, observer: counts };
}
