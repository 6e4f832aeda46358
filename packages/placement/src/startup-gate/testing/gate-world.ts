/** Nodes with startup gates through time: decided, planned and patched as the node writer does, on clocks of our own. */

import { keepFields } from "@berth/host";
import type { Node, Pod } from "@berth/kube";
import type { NodeView } from "../../node/capability.ts";
import type { MarkId } from "../../node/mark.ts";
import { mergeContributions } from "../../node/merge.ts";
import { effectiveRecord, type NodePlan, planNode } from "../../node/plan.ts";
import { ownedMarks } from "../../node/record.ts";
import { NEW_YEAR } from "../../node/testing/labels.ts";
import { editNode, makeNode, type NodeInit, patchNode } from "../../node/testing/world.ts";
import { bindGates, type GateCapability, gateFields } from "../capability.ts";
import { GateClocks } from "../clocks.ts";
import { type CompileInput, compileGates, declaredPlaces } from "../compile.ts";
import type { Idleness } from "../decide.ts";
import { startupGateSpec } from "../document.ts";
import type { Gates } from "../gate.ts";
import { GateTally } from "../tally.ts";
import type { SpecInput } from "./gate-case.ts";
import { sightOf } from "./observations.ts";

export type Documents = Readonly<Record<string, SpecInput>>;

export interface WorldInit {
  readonly gates?: Documents;
  readonly nodes?: readonly NodeInit[];
  /** How old the nodes are when it begins. Milliseconds; default two hours. */
  readonly ageMs?: number;
}

const INSTALLATION = "berth";
const keep = keepFields<Node>(gateFields);
const BEGIN_MS = 5_000_000;
/** More rounds than any node needs to come to rest at one moment. */
const MAX_ROUNDS = 5;

export class GateWorld {
  /** The wall clock of the process, which may jump, and the other one. */
  wallMs: number = NEW_YEAR;
  monoMs: number = BEGIN_MS;
  readonly nodes: Map<string, Node> = new Map();
  pods: readonly Pod[] = [];
  podsRead = true;
  idle: Idleness = "unknown";
  /** Patches that were made. */
  writes = 0;
  /** Says of a patch whether it is lost on the way. */
  isLost: () => boolean = () => false;
  /** Places that are stored: they outlive the process. */
  readonly #places = new Set<MarkId>();
  readonly #declared = new Set<ReturnType<typeof declaredPlaces>[number]>();
  readonly #rechecks = new Map<string, number>();
  #gates: Gates | undefined;
  #life: { readonly capability: GateCapability; readonly clocks: GateClocks; readonly tally: GateTally };
  #onWrite: (before: Node, after: Node, plan: NodePlan) => void = () => {};

  constructor({ gates = {}, nodes = [{}], ageMs = 7_200_000 }: WorldInit = {}) {
    for (const init of nodes) this.register(init, ageMs);
    this.#life = this.#start();
    this.setGates(gates);
  }

  /** The time by the clocks of server and kubelets. */
  get serverMs(): number {
    return NEW_YEAR + this.monoMs - BEGIN_MS;
  }

  /** What is asked after each patch. */
  set onWrite(look: (before: Node, after: Node, plan: NodePlan) => void) {
    this.#onWrite = look;
  }

  get node(): Node {
    return this.nodeOf("n1");
  }

  get tally(): GateTally {
    return this.#life.tally;
  }

  get clocks(): GateClocks {
    return this.#life.clocks;
  }

  get gates(): Gates | undefined {
    return this.#gates;
  }

  nodeOf(name: string): Node {
    const node = this.nodes.get(name);
    if (node === undefined) throw new Error(`no node ${name}`);
    return node;
  }

  register(init: NodeInit, ageMs = 0): void {
    const node = makeNode(init);
    const creationTimestamp = new Date(this.serverMs - ageMs).toISOString();
    const made = {
      ...node,
      metadata: { ...node.metadata, creationTimestamp },
      status: { nodeInfo: { bootID: "boot-1" } },
    } as Node;
    this.nodes.set(node.metadata?.name ?? "", made);
  }

  /** `undefined`: no source has been read. */
  setGates(
    documents: Documents | undefined,
    more: Pick<CompileInput, "gone" | "unsettled"> & {
      readonly unreadable?: readonly string[];
      readonly source?: "config" | "cluster";
    } = {},
  ): void {
    const { unreadable = [], source = "config", ...rest } = more;
    this.#gates =
      documents &&
      compileGates({
        ...rest,
        declaredBefore: this.#declared,
        sources: [
          {
            source,
            documents: Object.entries(documents).map(([name, input]) => ({
              name,
              spec: startupGateSpec.parse({ minimumHold: "0s", ...input }),
            })),
            unreadable: unreadable.map((name) => ({ name, message: "no" })),
          },
        ],
      });
    if (this.#gates !== undefined) for (const id of declaredPlaces(this.#gates)) this.#declared.add(id);
  }

  /** Another process takes over: it knows what stands on the nodes. */
  restart(): void {
    this.#life = this.#start();
    this.#declared.clear();
    this.#rechecks.clear();
    if (this.#gates !== undefined) for (const id of declaredPlaces(this.#gates)) this.#declared.add(id);
  }

  edit(edit: Parameters<typeof editNode>[1], name = "n1"): void {
    this.nodes.set(name, editNode(this.nodeOf(name), edit));
  }

  /** Something else of a node changes. */
  change(change: (node: Node) => Node, name = "n1"): void {
    const node = this.nodeOf(name);
    const version = String(Number(node.metadata?.resourceVersion ?? 0) + 1);
    const next = change(node);
    this.nodes.set(name, { ...next, metadata: { ...next.metadata, resourceVersion: version } });
  }

  viewOf(name = "n1"): NodeView {
    // What an informer keeps of it: a field that is read and not declared is missing in every test.
    const node = keep(structuredClone(this.nodeOf(name)));
    return { node, owned: ownedMarks(effectiveRecord(node, undefined), INSTALLATION) };
  }

  get capability(): GateCapability {
    return this.#life.capability;
  }

  plan(name = "n1"): NodePlan {
    const view = this.viewOf(name);
    const contribution = this.capability.contribute(view, this.wallMs);
    const merged = mergeContributions([contribution]);
    for (const id of contribution.policy.places ?? []) this.#places.add(id);
    const input = { node: view.node, merged, installation: INSTALLATION, now: this.wallMs };
    const plan = planNode({ ...input, declared: this.#places });
    const contributions = [contribution];
    this.tally.decided(name, {
      contributions,
      owned: view.owned,
      changes: plan.changes,
      withheld: new Map(),
    });
    const { recheckAfterMs } = contribution.decision;
    if (recheckAfterMs === undefined) this.#rechecks.delete(name);
    else this.#rechecks.set(name, this.monoMs + recheckAfterMs);
    return plan;
  }

  /** One pass over one node. @returns whether it wrote. */
  act(name = "n1"): boolean {
    const plan = this.plan(name);
    const { patch } = plan;
    if (patch === undefined || this.isLost()) return false;
    const before = this.nodeOf(name);
    const after = patchNode(before, {
      ...patch,
      metadata: { ...patch.metadata, resourceVersion: undefined },
    });
    this.nodes.set(name, after);
    this.writes += 1;
    this.tally.written(name, plan.changes);
    this.#onWrite(before, after, plan);
    return true;
  }

  /** Until no node needs another write at this moment. @throws Error when it goes on and on. */
  settle(): void {
    for (const name of this.nodes.keys()) {
      let rounds = 0;
      while (this.act(name)) {
        rounds += 1;
        if (rounds > MAX_ROUNDS) throw new Error(`${name} does not come to rest`);
      }
    }
  }

  /** Time passes, and every node is looked at when it asked for it. */
  pass(ms: number): void {
    this.settle();
    const until = this.monoMs + ms;
    while (this.monoMs < until) {
      const due = Math.min(until, ...this.#rechecks.values());
      const step = Math.max(1, due - this.monoMs);
      this.monoMs += step;
      this.wallMs += step;
      this.settle();
    }
  }

  #start(): { capability: GateCapability; clocks: GateClocks; tally: GateTally } {
    const clocks = new GateClocks({ monotonic: () => this.monoMs });
    const tally = new GateTally({ onChange: () => {}, now: () => this.wallMs });
    const capability = bindGates({
      gates: () => this.#gates,
      sources: {
        clocks,
        observations: {
          pods: (query, node) => this.#observations().pods(query, node),
          daemonSet: () => null,
          labelsSettled: () => undefined,
        },
        idle: () => this.idle,
        mayHoldAgain: (gate, node) => tally.mayHoldAgain(gate, node, []),
      },
    });
    return { capability, clocks, tally };
  }

  #observations(): ReturnType<typeof sightOf> {
    const selectors = (this.#gates?.gates ?? []).flatMap(({ spec }) =>
      spec.signals.pods.map(({ selector }) => selector),
    );
    return sightOf({ pods: this.pods, selectors, isUnread: () => !this.podsRead });
  }
}
