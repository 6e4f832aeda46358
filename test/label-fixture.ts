/**
 * Fixture for tests of label rules on the whole product: nodes on a real API server, rules, and running Berths, together
 * with a note of what others have set, from which the oracle derives what every node must look like.
 */
import { deepStrictEqual } from "node:assert";
import type { RunningBerth } from "@berth/cli";
import { events, type KubeEvent, type Node, nodes } from "@berth/kube";
import {
  type AuditEntry,
  type AuditMark,
  eventually,
  type NodeBuilder,
  type TestCluster,
} from "@berth/testcluster";
import { hurriedClock } from "../packages/runtime/src/testing/hurried-clock.ts";
import { createNamespace, Fixture, isWrite, type StartOptions } from "./fixture.ts";
import { type NodeHistory, recordNodes } from "./node-history.ts";
import {
  derivedKeys,
  expectedLabels,
  foreignAnnotations,
  type Labels,
  type OracleOptions,
  type RuleFiles,
  recordedLabels,
} from "./oracle.ts";
import type { BerthOnCluster, BerthProcess } from "./product.ts";
import { createRuleFolder, type EditedFolder } from "./rule-folder.ts";

/** Values by key; `null` takes the key away. */
export type Edits = Readonly<Record<string, string | null>>;

export interface ProcessOptions extends Omit<BerthOnCluster, "args" | "documents"> {
  /** Default the fixture's own rules. */
  readonly labelFolder?: string;
}

/** One node as it must be apart from Berth, and what Berth may have done to it. */
interface Actor {
  readonly spec: Node["spec"];
  labels: Labels;
  annotations: Labels;
  /** The keys that the rules set on it now. */
  derived: ReadonlySet<string>;
  /** Every key that rules ever set on it, with how often its label could rightly go away or change its value. */
  readonly losses: Map<string, number>;
}

/** Shows that Berth is at work while everything else stays as it is. */
const CANARY = { node: "canary", input: "canary/input", rule: "canary/output" };

/** @param name Begins the names of its nodes; its namespace, which holds the Events about files. */
export async function createLabelFixture(
  cluster: TestCluster,
  name: string,
  options: OracleOptions = {},
): Promise<LabelFixture> {
  await using owned = new AsyncDisposableStack();
  const history = owned.use(await recordNodes(cluster.client));
  let noteChange = (): void => undefined;
  const rules = owned.use(await createRuleFolder(() => noteChange()));
  await createNamespace(cluster, name);
  await rules.write(CANARY.rule, CANARY.input);
  const fixture = new LabelFixture(cluster, name, { options, history, rules });
  fixture.own(owned.move());
  noteChange = () => fixture.noteChange();
  await fixture.add(CANARY.node);
  return fixture;
}

interface Parts {
  readonly options: OracleOptions;
  readonly history: NodeHistory;
  readonly rules: EditedFolder;
}

export class LabelFixture extends Fixture {
  readonly rules: EditedFolder;
  readonly #parts: Parts;
  readonly #actors = new Map<string, Actor>();
  #files: () => RuleFiles;

  /** Use `createLabelFixture`. */
  constructor(cluster: TestCluster, name: string, parts: Parts) {
    super(cluster, name);
    this.rules = parts.rules;
    this.#parts = parts;
    this.#files = () => parts.rules.files;
  }

  /** From now on the rules are those of another folder, for the oracle; a Berth is given it when it is started. */
  followRules(files: () => RuleFiles): void {
    this.#files = files;
    this.noteChange();
  }

  override async add(node: string, shape: (builder: NodeBuilder) => NodeBuilder = (it) => it): Promise<Node> {
    const made = await super.add(node, shape);
    this.#actors.set(node, {
      spec: made.spec,
      labels: made.metadata?.labels ?? {},
      annotations: made.metadata?.annotations ?? {},
      derived: new Set(),
      losses: new Map(),
    });
    this.noteChange();
    return made;
  }

  async remove(node: string): Promise<void> {
    await this.cluster.client.delete(nodes, { name: this.nodeName(node) });
    this.#actors.delete(node);
  }

  /** Others change labels of their own. */
  async label(node: string, edits: Edits): Promise<void> {
    await this.editNode(node, { metadata: { labels: edits } });
    const actor = this.#actor(node);
    actor.labels = edited(actor.labels, edits);
    this.noteChange();
  }

  /** Others change annotations of their own. */
  async annotate(node: string, edits: Edits): Promise<void> {
    await this.editNode(node, { metadata: { annotations: edits } });
    const actor = this.#actor(node);
    actor.annotations = edited(actor.annotations, edits);
  }

  /** Others meddle with what is ours; it must come back. */
  async tamper(
    node: string,
    meddling: { readonly labels?: Edits; readonly annotations?: Edits },
  ): Promise<void> {
    await this.editNode(node, { metadata: meddling });
    const { losses } = this.#actor(node);
    // Once by them, and once more when a value of theirs gives way to ours.
    for (const key of Object.keys(meddling.labels ?? {})) losses.set(key, (losses.get(key) ?? 0) + 2);
  }

  /** Starts a Berth that follows the rules of this fixture. */
  start({ labelFolder = this.rules.path, ...connection }: ProcessOptions = {}): Promise<BerthProcess> {
    const files = ["--label-dir", labelFolder, "--namespace", this.name];
    const reserved = (this.#parts.options.allowReserved ?? []).flatMap((key) => ["--allow-reserved", key]);
    return this.spawn({ args: [...files, ...reserved], ...connection });
  }

  /**
   * The same inside this process, where its time and its connection can be chosen. Waits for nothing.
   *
   * @param options `pace`: how many times faster than real time its clock runs; the network is not hurried by that.
   */
  startInProcess({
    pace = 1,
    ...options
  }: StartOptions & { readonly pace?: number } = {}): Promise<RunningBerth> {
    const { path: folder } = this.rules;
    const { allowReserved = [] } = this.#parts.options;
    const labelFolder = { path: folder, shown: folder, options: { allowReserved } };
    const self = { apiVersion: "v1", kind: "Namespace", name: this.name, namespace: this.name };
    return this.begin(options, { labelFolder, self, clock: hurriedClock(pace), ...options });
  }

  /** The Events with this reason: about the files of this fixture, and about its nodes. */
  override async events(reason: string): Promise<readonly KubeEvent[]> {
    const { items } = await this.cluster.client.list(events, { fieldSelector: `reason=${reason}` });
    const isOurs = ({ regarding }: KubeEvent): boolean =>
      regarding?.namespace === this.name || regarding?.name?.startsWith(`${this.name}-`) === true;
    return items.filter(isOurs);
  }

  /** The labels of the node as they must be now. */
  expected(node: string): Labels {
    const { labels, derived } = this.#actor(node);
    return expectedLabels(labels, derived);
  }

  /**
   * Resolves as soon as every node is exactly as it must be: labels, ownership record, and all that others have set.
   * Fails as well when a label ever went away, or changed its value, more often than its support did.
   */
  async right({ timeoutMs = 20_000 }: { readonly timeoutMs?: number } = {}): Promise<void> {
    const expected = this.#asExpected();
    const found = await eventually(
      async () => {
        const { items } = await this.cluster.client.list(nodes);
        const ours = items.filter(({ metadata }) => metadata?.name?.startsWith(`${this.name}-`));
        deepStrictEqual(Object.fromEntries(ours.map(toState)), expected);
        return ours;
      },
      { timeoutMs },
    );
    for (const node of found) await this.#parts.history.reaches(node);
    deepStrictEqual(this.#flaps(), []);
    for (const actor of this.#actors.values()) takeOver(actor);
  }

  /**
   * Everything is right and stays so without a single write: a change that does not matter is seen (the canary, which
   * changes after it, is answered), and in the audit log the answer to the canary is all that there is.
   */
  async restful(): Promise<void> {
    await this.right();
    const mark = await this.cluster.audit.mark();
    const bystander = [...this.#actors.keys()].find((node) => node !== CANARY.node) ?? CANARY.node;
    const beats = Number(this.#actor(bystander).annotations["example.com/heartbeat"] ?? 0);
    await this.annotate(bystander, { "example.com/heartbeat": String(beats + 1) });
    await this.changeCanary();
    await this.right();
    const entries = (await this.requests(mark)).filter(({ resource }) => resource !== "events.events.k8s.io");
    const writes = entries.filter(isWrite).map(({ verb, resource, name }) => `${verb} ${resource} ${name}`);
    deepStrictEqual(writes, [`patch nodes ${this.nodeName(CANARY.node)}`]);
  }

  /** Changes the canary, so that an answer to it shows that everything before it was seen as well. */
  async changeCanary(): Promise<void> {
    const isSet = this.#actor(CANARY.node).labels[CANARY.input] !== undefined;
    await this.label(CANARY.node, { [CANARY.input]: isSet ? null : "true" });
  }

  /** The patches of nodes of this fixture that Berth has sent since then, answered how ever. */
  async patchesSince(mark: AuditMark): Promise<readonly AuditEntry[]> {
    const found = await this.requests(mark, "nodes");
    return found.filter(({ verb, name }) => verb === "patch" && name.startsWith(this.nodeName("")));
  }

  /** Rules or labels have changed: brings the expectation up to date. */
  noteChange(): void {
    const files = this.#files();
    for (const actor of this.#actors.values()) {
      const derived = derivedKeys(files, actor.labels, this.#parts.options);
      for (const key of actor.derived) if (!derived.has(key)) addLoss(actor, key, 1);
      for (const key of derived) {
        const before = actor.labels[key];
        // A foreign value gives way to ours: the label does not go away, and yet it changes.
        const isReplaced = !actor.derived.has(key) && before !== undefined && before !== "true";
        addLoss(actor, key, isReplaced ? 1 : 0);
      }
      actor.derived = derived;
    }
  }

  #actor(node: string): Actor {
    const actor = this.#actors.get(node);
    if (actor === undefined) throw new Error(`there is no node ${node} in this fixture`);
    return actor;
  }

  #asExpected(): Readonly<Record<string, NodeState>> {
    return Object.fromEntries(
      [...this.#actors].map(([node, { labels, annotations, derived, spec }]) => {
        const record = Object.fromEntries([...derived].map((key) => [key, `folder/${key}`]));
        return [
          this.nodeName(node),
          { labels: expectedLabels(labels, derived), record, annotations, spec },
        ] as const;
      }),
    );
  }

  #flaps(): readonly string[] {
    return [...this.#actors].flatMap(([node, { losses }]) => {
      const seen = this.#parts.history.lossesOf(this.nodeName(node));
      return [...losses]
        .filter(([key, allowed]) => (seen.get(key) ?? 0) > allowed)
        .map(
          ([key, allowed]) => `${node}: ${key} was lost ${seen.get(key)} times, its support ${allowed} times`,
        );
    });
  }
}

interface NodeState {
  readonly labels: Labels;
  readonly record: Labels;
  readonly annotations: Labels;
  readonly spec: Node["spec"];
}

function toState(node: Node): readonly [string, NodeState] {
  const { name = "", labels = {} } = node.metadata ?? {};
  const { spec } = node;
  return [name, { labels, record: recordedLabels(node), annotations: foreignAnnotations(node), spec }];
}

function edited(values: Labels, edits: Edits): Labels {
  const next = Object.entries({ ...values, ...edits }).filter(
    (entry): entry is [string, string] => entry[1] !== null,
  );
  return Object.fromEntries(next);
}

function addLoss({ losses }: Actor, key: string, count: number): void {
  losses.set(key, (losses.get(key) ?? 0) + count);
}

/** A label of others that a rule wanted and Berth has taken over is ours now, and goes when its support goes. */
function takeOver(actor: Actor): void {
  const left = Object.entries(actor.labels).filter(([key]) => !actor.derived.has(key));
  actor.labels = Object.fromEntries(left);
}
