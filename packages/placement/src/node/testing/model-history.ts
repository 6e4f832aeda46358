/** One history of nodes, of processes of Berth and of others who write to them: how it is carried out, and what was wrong. */
import type { ApiFailure, Node } from "@berth/kube";
import { createVirtualClock, type VirtualClock } from "@berth/runtime";
import { MARKS_ANNOTATION } from "../../api/keys.ts";
import { type MarkId, parseMarkId, standingValue } from "../mark.ts";
import { recordOf } from "../record.ts";
import { MarkAudit } from "./mark-audit.ts";
import { applies, type ModelConfig, ModelProcess, type ModelRule, type Weather } from "./model-berth.ts";
import { ModelServer } from "./model-server.ts";

export const IDS: readonly MarkId[] = [
  "label/a",
  "label/b",
  "label/k8s.io/p",
  "annotation/c",
  "taint/t:NoSchedule",
  "taint/t:NoExecute",
  "unschedulable",
];
export const GATE: MarkId = "label/gate";
const ours: ReadonlySet<MarkId> = new Set([...IDS, GATE]);
const INSTALLATIONS = ["berth", "other"] as const;
export type Installation = (typeof INSTALLATIONS)[number];
export const NAMES: readonly string[] = ["n1", "n2"];

/** What becomes of a patch that sets this: an admission plugin that looks at values. */
export interface Refused {
  readonly id: MarkId;
  readonly value: string;
  readonly failure: ApiFailure;
  /** Also after all other faults have ended. */
  readonly forGood: boolean;
}

export type Step =
  | { readonly do: "wait"; readonly ms: number }
  | {
      readonly do: "configure";
      readonly who: Installation;
      readonly config: ModelConfig;
      readonly ms: number;
    }
  | {
      readonly do: "restart" | "hand over";
      readonly who: Installation;
      readonly ms: number;
      readonly readAfterMs: readonly number[];
    }
  | { readonly do: "lag" | "list" | "recheck"; readonly who: Installation; readonly ms: number }
  | {
      readonly do: "remove" | "register" | "recreate";
      readonly name: string;
      readonly standing: MarkId | undefined;
    }
  | { readonly do: "fight"; readonly name: string; readonly id: MarkId }
  | { readonly do: "edit"; readonly name: string; readonly foreign: string; readonly input: boolean }
  | { readonly do: "meddle"; readonly name: string; readonly id: MarkId; readonly value: string | undefined }
  | { readonly do: "tamper"; readonly name: string; readonly record: string | null };

export interface Setting {
  readonly configs: Readonly<Record<Installation, ModelConfig>>;
  readonly weather: readonly Weather[];
  readonly refused: Refused | undefined;
  /** The nodes that are there at the start carry this label already. */
  readonly standing: readonly [key: string, value: string] | undefined;
}

export const CALM: Weather = { thereMs: 3, backMs: 3 };

/** Everything in one history: the server, who writes to it, and what has been seen. */
class World {
  readonly clock: VirtualClock = createVirtualClock();
  readonly server: ModelServer;
  readonly audit: MarkAudit;
  readonly processes: ModelProcess[] = [];
  readonly configs: Record<Installation, ModelConfig>;
  refused: Refused | undefined;
  readonly #storm: readonly Weather[];
  #requests = 0;
  calm = false;

  constructor({ configs, weather, refused, standing }: Setting) {
    this.#storm = weather;
    this.configs = { ...configs };
    this.refused = refused;
    this.audit = new MarkAudit({
      ours,
      exclusive: new Set([GATE]),
      writer: (name) =>
        this.processes.find((it) => it.name === name) ?? { installation: "", read: new Set() },
    });
    this.server = new ModelServer({
      refusal: (before, after) => this.#refusalOf(before, after),
      onWrite: (write) => {
        this.audit.onWrite(write);
        for (const one of this.processes) one.onWrite(write);
      },
    });
    for (const name of NAMES)
      this.server.register(name, {
        labels: {
          in: "1",
          foreign: "0",
          "k8s.io/foreign": "0",
          ...(standing && { [standing[0]]: standing[1] }),
        },
        annotations: { foreign: "0" },
        taints: [{ key: "foreign", effect: "NoSchedule" }],
      });
  }

  /** The process of this installation that is not on its way out. */
  current(installation: Installation): ModelProcess | undefined {
    return this.processes.findLast((it) => it.installation === installation);
  }

  async start(installation: Installation, readAfterMs: readonly number[]): Promise<void> {
    const one = new ModelProcess({
      name: `${installation}-${this.processes.length}`,
      installation,
      server: this.server,
      clock: this.clock,
      weather: () => (this.calm ? CALM : (this.#storm[this.#requests++ % this.#storm.length] ?? CALM)),
      ours,
      // What belongs to one capability alone belongs to one installation alone.
      exclusive: new Map(
        installation === "berth"
          ? [
              ["one", new Set([GATE])],
              ["two", new Set([GATE])],
            ]
          : [],
      ),
      config: () => this.configs[installation],
      readAfterMs,
    });
    this.processes.push(one);
    await one.start();
  }

  #refusalOf(before: Node, after: Node): ApiFailure | undefined {
    const { refused } = this;
    if (refused === undefined || standingValue(after, refused.id) !== refused.value) return undefined;
    return standingValue(before, refused.id) === refused.value ? undefined : refused.failure;
  }
}

async function carryOut(world: World, step: Step): Promise<void> {
  const { server, clock } = world;
  switch (step.do) {
    case "wait":
      return clock.advance(step.ms);
    case "configure": {
      world.configs[step.who] = step.config;
      for (const it of world.processes) if (it.installation === step.who) it.configure(step.ms);
      return;
    }
    case "restart":
      world.current(step.who)?.stop();
      return world.start(step.who, step.readAfterMs);
    case "hand over": {
      const before = world.current(step.who);
      clock.schedule(step.ms, () => before?.stop());
      return world.start(step.who, step.readAfterMs);
    }
    case "lag": {
      const one = world.current(step.who);
      if (one !== undefined) one.lagMs = step.ms;
      return;
    }
    case "list":
      return world.current(step.who)?.list();
    case "recheck":
      return world.current(step.who)?.recheck();
    case "remove":
      return server.remove(step.name);
    case "recreate":
      server.remove(step.name);
      return register(world, step.name, step.standing);
    case "register":
      return register(world, step.name, step.standing);
    case "edit":
      return server.edit(step.name, () => ({
        metadata: { labels: { foreign: step.foreign, in: step.input ? "1" : null } },
        status: { heartbeat: step.foreign },
      }));
    case "meddle":
      return server.edit(step.name, (node) => meddling(node, step.id, step.value));
    case "fight":
      // Five times within a minute: more than the writer puts up with.
      for (let round = 0; round < 5; round++) {
        server.edit(step.name, (node) => meddling(node, step.id, round % 2 === 0 ? "3" : undefined));
        await clock.advance(5_000);
      }
      return;
    case "tamper":
      return server.edit(step.name, () => ({
        metadata: { annotations: { [MARKS_ANNOTATION]: step.record } },
      }));
  }
}

/** A node comes, perhaps with a mark on it that looks like one of ours. */
function register({ server }: World, name: string, standing: MarkId | undefined): void {
  const place = standing && parseMarkId(standing);
  server.register(name, { labels: { in: "1", ...(place && { [place.key]: "1" }) } });
}

/** The patch by which another writer sets or removes one of our marks. */
function meddling(node: Node, id: MarkId, value: string | undefined): object {
  const place = parseMarkId(id);
  if (place?.kind === "label") return { metadata: { labels: { [place.key]: value ?? null } } };
  if (place?.kind === "annotation") return { metadata: { annotations: { [place.key]: value ?? null } } };
  if (place?.kind !== "taint") return { spec: { unschedulable: value === undefined ? null : true } };
  const { key, effect } = place;
  const others = (node.spec?.taints ?? []).filter((it) => it.key !== key || it.effect !== effect);
  return { spec: { taints: value === undefined ? others : [{ key, effect, value }, ...others] } };
}

/** Longer than a refused change waits at most, and than a place is left alone that others fight for. */
const SETTLE_MS = 1_200_000;
/** More than two processes write that have other rules, until the older one has read its own or has ended. */
const OVERLAP_WRITES = 10_000;

/** Runs the steps; then all faults end. Gives all that was wrong. */
export async function violationsOf(steps: readonly Step[], setting: Setting): Promise<string[]> {
  const world = new World(setting);
  const { clock, server } = world;
  for (const installation of INSTALLATIONS) await world.start(installation, [0, 0]);
  for (const step of steps) await carryOut(world, step);
  world.calm = true;
  if (world.refused?.forGood === false) world.refused = undefined;
  await pass(world, 120_000, OVERLAP_WRITES);
  for (const name of NAMES) heal(world, name);
  for (const one of world.processes) one.lagMs = 10;
  await pass(world, SETTLE_MS, OVERLAP_WRITES);
  const [version, requests] = [server.version, requestsOf(world)];
  await pass(world, 2 * SETTLE_MS);
  const found = [...world.audit.violations, ...world.processes.flatMap((it) => it.violations)];
  if (server.version !== version) found.push("it goes on writing");
  if (world.refused === undefined && requestsOf(world) !== requests) found.push("it goes on asking");
  for (const [name, node] of server.nodes)
    for (const installation of INSTALLATIONS)
      found.push(
        ...stateViolations(world, installation, node).map((what) => `${installation}, ${name}: ${what}`),
      );
  for (const one of world.processes) one.stop();
  await clock.advance(0);
  return found;
}

/** Time passes, but not when it goes on and on: that is found out already. */
async function pass({ clock, server }: World, ms: number, most = 200): Promise<void> {
  const enough = server.version + most;
  for (let passed = 0; passed < ms && server.version < enough; passed += 60_000) await clock.advance(60_000);
}

function heal({ server }: World, name: string): void {
  const node = server.nodes.get(name);
  if (node !== undefined && recordOf(node).state === "unreadable")
    server.edit(name, () => ({ metadata: { annotations: { [MARKS_ANNOTATION]: null } } }));
}

function requestsOf(world: World): number {
  return world.processes.reduce((sum, { requests }) => sum + requests, 0);
}

interface Claim {
  readonly capability: string;
  readonly rule: ModelRule;
}

/** What is wrong with a node that has come to rest, as one installation sees it. */
function stateViolations(world: World, installation: Installation, node: Node): string[] {
  const found: string[] = [];
  const claims = claimsOn(world.configs[installation], node);
  const record = recordOf(node);
  const entries = record.state === "read" ? record.record.marks : new Map<MarkId, never>();
  const blocked = blockedBy(world.refused, claims);
  for (const [id, [claim, ...rivals]] of claims) {
    if (claim === undefined || rivals.some((it) => it.rule.value !== claim.rule.value)) continue;
    const [standing, entry] = [standingValue(node, id), entries.get(id)];
    if (blocked(id) || (entry !== undefined && entry.by !== installation)) continue;
    if (entry === undefined && claim.rule.foreign === "leave" && standing !== undefined) {
      if (standing === claim.rule.value) found.push(`${id} stands as wanted and is not recorded`);
    } else if (standing !== claim.rule.value) found.push(`${id} is ${standing}, wanted ${claim.rule.value}`);
    else if (entry === undefined) found.push(`${id} is not recorded`);
  }
  for (const [id, entry] of entries) {
    if (entry.by !== installation || claims.has(id) || blocked(id)) continue;
    found.push(`${id} is recorded and not wanted`);
  }
  if (!world.audit.isTampered(node))
    for (const id of world.audit.written(node))
      if (ours.has(id) && standingValue(node, id) !== undefined && !entries.has(id))
        found.push(`${id} was set by Berth, without a record`);
  return found;
}

function claimsOn(config: ModelConfig, node: Node): Map<MarkId, Claim[]> {
  const claims = new Map<MarkId, Claim[]>();
  for (const [capability, rules] of Object.entries(config))
    for (const rule of rules)
      if (applies(rule, node)) claims.set(rule.id, [...(claims.get(rule.id) ?? []), { capability, rule }]);
  return claims;
}

/** Which changes need not have been made: the one that is refused. */
function blockedBy(
  refused: Refused | undefined,
  claims: ReadonlyMap<MarkId, readonly Claim[]>,
): (id: MarkId) => boolean {
  const offender = claims.get(refused?.id ?? GATE)?.find(({ rule }) => rule.value === refused?.value);
  if (refused === undefined || offender === undefined) return () => false;
  return (id) => id === refused.id;
}
