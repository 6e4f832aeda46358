/**
 * A stage for tests of the whole product: nodes on a real API server, rules, and running Berths, together with a note
 * of what others have set, from which the oracle tells what every node must look like.
 *
 * A world has the nodes of its cluster to itself while it lasts: Berth looks after all nodes there are.
 */
import { deepStrictEqual } from "node:assert";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type RunningBerth, startBerth } from "@berth/cli";
import { events, type KubeEvent, type Node, namespaces, nodes } from "@berth/kube";
import { type Clock, systemClock } from "@berth/runtime";
import {
  type AuditEntry,
  type AuditMark,
  aNode,
  eventually,
  type TestCluster,
  type TestUser,
} from "@berth/testcluster";
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
import { type BerthProcess, startBerthProcess } from "./product.ts";
import { createRuleFolder, type EditedFolder } from "./rule-folder.ts";

/** Values by key; `null` takes the key away. */
export type Edits = Readonly<Record<string, string | null>>;

export interface StartOptions {
  /** Where it connects; default the API server itself. */
  readonly server?: string;
  /** Default the admin. */
  readonly user?: TestUser;
  /** Text of the whole kubeconfig, instead of `server` and `user`. */
  readonly kubeconfig?: string;
  /** Default the world's own rules. */
  readonly labelFolder?: string;
  /** Added to the command line. */
  readonly args?: readonly string[];
}

export interface StartInProcessOptions {
  /** Default the API server itself. */
  readonly server?: string;
  /** A connection silent for this long is dead. Milliseconds, default as for anybody. */
  readonly silenceMs?: number;
  /** How many times faster than real time its clock runs; the network is not hurried by that. Default 1. */
  readonly pace?: number;
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

/** No other user agent on these clusters begins so. */
const BERTH = "berth/";
const WRITES: ReadonlySet<string> = new Set(["create", "update", "patch", "delete", "deletecollection"]);

/** @param name Begins the names of its nodes; its namespace, which holds the Events about files. */
export async function createWorld(
  cluster: TestCluster,
  name: string,
  options: OracleOptions = {},
): Promise<World> {
  await using owned = new AsyncDisposableStack();
  const history = owned.use(await recordNodes(cluster.client));
  const folder = await mkdtemp(path.join(tmpdir(), "berth-world-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  let noteChange = (): void => undefined;
  const rules = owned.use(await createRuleFolder(() => noteChange()));
  await cluster.client.create(namespaces, { metadata: { name } });
  await rules.write(CANARY.rule, CANARY.input);
  await using made = new AsyncDisposableStack();
  const parts = { cluster, name, options, history, folder, rules, owned: owned.move() };
  const world = made.use(new World(parts));
  noteChange = () => world.noteChange();
  await world.add(CANARY.node);
  made.move();
  return world;
}

interface Parts {
  readonly cluster: TestCluster;
  readonly name: string;
  readonly options: OracleOptions;
  readonly history: NodeHistory;
  readonly folder: string;
  readonly rules: EditedFolder;
  readonly owned: AsyncDisposableStack;
}

export class World implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly name: string;
  readonly rules: EditedFolder;
  readonly #parts: Parts;
  readonly #berths = new AsyncDisposableStack();
  readonly #actors = new Map<string, Actor>();
  #files: () => RuleFiles;
  #starts = 0;

  /** Use `createWorld`. */
  constructor(parts: Parts) {
    this.cluster = parts.cluster;
    this.name = parts.name;
    this.rules = parts.rules;
    this.#parts = parts;
    this.#files = () => parts.rules.files;
  }

  /** The full name of a node. */
  nodeName(node: string): string {
    return `${this.name}-${node}`;
  }

  /** From now on the rules are those of another folder, for the oracle; a Berth is given it when it is started. */
  followRules(files: () => RuleFiles): void {
    this.#files = files;
    this.noteChange();
  }

  async add(node: string, labels: Labels = {}, annotations: Labels = {}): Promise<void> {
    const built = aNode(this.nodeName(node)).labelled(labels).annotated(annotations).build();
    const made = await this.cluster.client.create(nodes, built);
    this.#actors.set(node, {
      spec: made.spec,
      labels: made.metadata?.labels ?? {},
      annotations: made.metadata?.annotations ?? {},
      derived: new Set(),
      losses: new Map(),
    });
    this.noteChange();
  }

  async remove(node: string): Promise<void> {
    await this.cluster.client.delete(nodes, { name: this.nodeName(node) });
    this.#actors.delete(node);
  }

  /** Others change labels of their own. */
  async label(node: string, edits: Edits): Promise<void> {
    await this.#patch(node, { labels: edits });
    const actor = this.#actor(node);
    actor.labels = edited(actor.labels, edits);
    this.noteChange();
  }

  /** Others change annotations of their own. */
  async annotate(node: string, edits: Edits): Promise<void> {
    await this.#patch(node, { annotations: edits });
    const actor = this.#actor(node);
    actor.annotations = edited(actor.annotations, edits);
  }

  /** Others meddle with what is ours; it must come back. */
  async tamper(
    node: string,
    meddling: { readonly labels?: Edits; readonly annotations?: Edits },
  ): Promise<void> {
    await this.#patch(node, meddling);
    const { losses } = this.#actor(node);
    // Once by them, and once more when a value of theirs gives way to ours.
    for (const key of Object.keys(meddling.labels ?? {})) losses.set(key, (losses.get(key) ?? 0) + 2);
  }

  /** Does this when the world ends, after its Berths have. */
  owns(undo: () => Promise<void>): void {
    this.#parts.owned.defer(undo);
  }

  read(node: string): Promise<Node> {
    return this.cluster.client.get(nodes, { name: this.nodeName(node) });
  }

  /** Starts a Berth that follows the rules of this world. It ends with the world, at the latest. */
  async start(options: StartOptions = {}): Promise<BerthProcess> {
    const { user, server, labelFolder = this.rules.path, args = [] } = options;
    this.#starts += 1;
    const kubeconfig = path.join(this.#parts.folder, `kubeconfig-${this.#starts}`);
    const choice = { ...(user && { user }), ...(server && { server }) };
    await writeFile(kubeconfig, options.kubeconfig ?? this.cluster.kubeconfig(choice), { mode: 0o600 });
    const files = ["--kubeconfig", kubeconfig, "--label-dir", labelFolder, "--namespace", this.name];
    const servers = ["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"];
    const reserved = (this.#parts.options.allowReserved ?? []).flatMap((key) => ["--allow-reserved", key]);
    return this.#berths.use(startBerthProcess({ args: ["run", ...files, ...servers, ...reserved, ...args] }));
  }

  /** The same inside this process, where its time and its connection can be chosen. */
  async startInProcess({ server, silenceMs, pace = 1 }: StartInProcessOptions = {}): Promise<RunningBerth> {
    const client = this.cluster.connect({
      userAgent: `${BERTH}in-process`,
      fieldManager: "berth",
      ...(server && { server }),
      ...(silenceMs && { silenceMs }),
    });
    this.#berths.use(client);
    const { path: folder } = this.rules;
    const { allowReserved = [] } = this.#parts.options;
    const labelFolder = { path: folder, shown: folder, options: { allowReserved } };
    const self = { apiVersion: "v1", kind: "Namespace", name: this.name, namespace: this.name };
    const berth = await startBerth({ client, labelFolder, self, clock: hurriedClock(pace) });
    return this.#berths.use(berth);
  }

  /** The Events with this reason: about the files of this world, and about its nodes. */
  async events(reason: string): Promise<readonly KubeEvent[]> {
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
    await this.singCanary();
    await this.right();
    const entries = await this.cluster.audit.entriesSince(mark, { userAgent: BERTH });
    const writes = entries.filter(isWrite).map(({ verb, resource, name }) => `${verb} ${resource} ${name}`);
    deepStrictEqual(writes, [`patch nodes ${this.nodeName(CANARY.node)}`]);
  }

  /** Changes the canary, so that an answer to it shows that everything before it was seen as well. */
  async singCanary(): Promise<void> {
    const sings = this.#actor(CANARY.node).labels[CANARY.input] !== undefined;
    await this.label(CANARY.node, { [CANARY.input]: sings ? null : "true" });
  }

  /** The patches of nodes of this world that Berth has sent since then, answered how ever. */
  async patchesSince(mark: AuditMark): Promise<readonly AuditEntry[]> {
    const filter = { userAgent: BERTH, verb: "patch", resource: "nodes" };
    return (await this.cluster.audit.entriesSince(mark, filter)).filter(({ name }) =>
      name.startsWith(`${this.name}-`),
    );
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

  async [Symbol.asyncDispose](): Promise<void> {
    await using _last = this.#parts.owned;
    try {
      await this.#berths.disposeAsync();
    } finally {
      for (const node of this.#actors.keys()) await this.remove(node);
    }
  }

  #patch(node: string, metadata: object): Promise<Node> {
    return this.cluster.client.patch(
      nodes,
      { name: this.nodeName(node) },
      { type: "merge", body: { metadata } },
    );
  }

  #actor(node: string): Actor {
    const actor = this.#actors.get(node);
    if (actor === undefined) throw new Error(`there is no node ${node} in this world`);
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

/** Time that passes `pace` times as fast. */
function hurriedClock(pace: number): Clock {
  return {
    now: () => systemClock.now(),
    monotonic: () => systemClock.monotonic() * pace,
    schedule: (delayMs, callback) => systemClock.schedule(delayMs / pace, callback),
  };
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

function isWrite({ verb, resource }: AuditEntry): boolean {
  return WRITES.has(verb) && resource !== "events.events.k8s.io";
}
