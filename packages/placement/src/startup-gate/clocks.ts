import type { Node } from "@berth/kube";
import type { Instant } from "../node/capability.ts";
import type { Boot } from "./gate.ts";
import { type GateState, MAX_BOOT, type Trial } from "./state.ts";

/** Input of each observation of a node. */
export interface Look {
  readonly rule: string;
  /** The gate holds the node, and the node waits for no other gate. */
  readonly held: boolean;
  /** Start of the hold according to the node; `undefined` if the node does not say it. */
  readonly heldSince: Instant | undefined;
  /** Evidence of the signals if all of them hold; `undefined` if they do not, or are not read. */
  readonly evidence: string | undefined;
  /** Some signal cannot be read. */
  readonly unknown: boolean;
  /** When the signals began to hold, according to the objects. Only a one-shot command trusts it. */
  readonly holdsSince?: Instant | undefined;
}

/** Milliseconds. */
export interface GateTimes {
  readonly heldForMs: number;
  readonly stableForMs: number;
  readonly unknownForMs: number;
}

interface Track {
  /** Set by the first observation: a hold that appears later began after it, not at the time on the node. */
  isLooked?: true;
  heldSince?: Instant | undefined;
  heldFromMs?: number | undefined;
  evidence?: string | undefined;
  stableFromMs: number;
  unknownFromMs?: number | undefined;
  stamp?: { readonly key: string; readonly at: Instant } | undefined;
  /** Only for a gate in dry run. */
  trial?: Trial;
}

interface NodeTrack {
  readonly uid: string | undefined;
  readonly gates: Map<string, Track>;
  /** When the node was created, by the monotonic clock. */
  readonly bornMs: number;
  /** The last boot that this process saw. It has `since` only if this process saw the boot begin. */
  boot: Boot;
}

/** Margin for heartbeats that a broken watch misses. A reboot takes longer, so earlier containers stay excluded. */
const UNSEEN_MS = 30_000;

/**
 * Measures durations on each node by a clock that cannot jump. The process keeps them in memory. After a restart a hold
 * continues from the time on the node, and signals must be stable anew.
 */
export class GateClocks {
  readonly #monotonic: () => number;
  readonly #trusting: boolean;
  readonly #nodes = new Map<string, NodeTrack>();

  /**
   * @param monotonic milliseconds from any origin; never jumps.
   * @param trusting believes times written on objects: for a one-shot command that changes nothing.
   */
  constructor({ monotonic, trusting = false }: { monotonic: () => number; trusting?: boolean }) {
    this.#monotonic = monotonic;
    this.#trusting = trusting;
  }

  get remembered(): number {
    return this.#nodes.size;
  }

  /** Idempotent. */
  look(node: Node, look: Look, now: Instant): GateTimes {
    const { rule, held, evidence, unknown, holdsSince } = look;
    const nowMs = this.#monotonic();
    const track = this.#trackOf(node, rule, now);
    const heldFromMs = held ? heldFrom(track, look, now, nowMs) : undefined;
    // The decision is another one now, even if its key is the same.
    if (heldFromMs !== track.heldFromMs || evidence !== track.evidence) track.stamp = undefined;
    track.heldFromMs = heldFromMs;
    track.heldSince = held ? look.heldSince : undefined;
    track.isLooked = true;
    if (track.evidence !== evidence) {
      track.evidence = evidence;
      const since = this.#trusting ? holdsSince : undefined;
      track.stableFromMs = nowMs - Math.max(0, now - (since ?? now));
    }
    if (!unknown) track.unknownFromMs = undefined;
    else track.unknownFromMs ??= nowMs;
    return {
      heldForMs: heldFromMs === undefined ? 0 : nowMs - heldFromMs,
      stableForMs: evidence === undefined ? 0 : nowMs - track.stableFromMs,
      unknownForMs: track.unknownFromMs === undefined ? 0 : nowMs - track.unknownFromMs,
    };
  }

  /**
   * Time of the first decision with this key. A change keeps this time if Berth decides it again because its patch was
   * refused or lost a race.
   */
  stamp(node: Node, rule: string, key: string, now: Instant): Instant {
    const track = this.#trackOf(node, rule, now);
    if (track.stamp?.key !== key) track.stamp = { key, at: now };
    return track.stamp.at;
  }

  /** The dry run of a gate on this node: `next` continues the current one or starts another. */
  trial(node: Node, rule: string, now: Instant, next: (current: Trial | undefined) => Trial): Trial {
    const track = this.#trackOf(node, rule, now);
    track.trial = next(track.trial);
    return track.trial;
  }

  /**
   * Dates a change of the bootID by the node's own clock, which also dates the start of containers. If this process
   * sees the change, the date is the first heartbeat of the new boot minus `UNSEEN_MS`. If it happened while Berth did
   * not run, the date is the time at which the state recorded the earlier boot.
   */
  boot(node: Node, state: GateState | undefined, now: Instant): Boot {
    const id = bootIdOf(node);
    const track = this.#nodeOf(node, now);
    const { id: before } = track.boot;
    if (id !== "" && before === "") track.boot = { id };
    else if (id !== "" && before !== id) track.boot = { id, since: (heartbeatOf(node) ?? now) - UNSEEN_MS };
    return this.bootOf(node, state);
  }

  /** Returns the same from known facts, and remembers nothing. */
  bootOf(node: Node, state: GateState | undefined): Boot {
    const id = bootIdOf(node);
    if (id === "") return { id };
    const { name = "", uid } = node.metadata ?? {};
    const track = this.#nodes.get(name);
    const seen = track?.uid === uid && track?.boot.id === id ? track.boot.since : undefined;
    const isWritten = state?.boot === undefined || state.boot === id;
    const since = isWritten ? (state?.bootAt ?? seen) : (seen ?? state.at);
    return since === undefined ? { id } : { id, since };
  }

  /** Age of the node, ms. The first observation uses the wall clock, later ones the monotonic clock. */
  age(node: Node, now: Instant): number {
    return this.#monotonic() - this.#nodeOf(node, now).bornMs;
  }

  /** The gate does not concern the node at present: later holds and signals start from zero. */
  rest({ metadata }: Node, rule: string): GateTimes {
    this.#nodes.get(metadata?.name ?? "")?.gates.delete(rule);
    return { heldForMs: 0, stableForMs: 0, unknownForMs: 0 };
  }

  /** Forgets the gates that are in neither set. Signals of a refused gate must be stable anew afterwards. */
  retain(inForce: ReadonlySet<string>, refused: ReadonlySet<string>): void {
    for (const { gates } of this.#nodes.values()) {
      for (const [rule, track] of gates) {
        if (inForce.has(rule)) continue;
        if (refused.has(rule)) track.evidence = track.stamp = undefined;
        else gates.delete(rule);
      }
    }
  }

  forget(node: string): void {
    this.#nodes.delete(node);
  }

  #nodeOf(node: Node, now: Instant): NodeTrack {
    const { name = "", uid, creationTimestamp } = node.metadata ?? {};
    let track = this.#nodes.get(name);
    if (track === undefined || track.uid !== uid) {
      const bornAt = Date.parse(creationTimestamp ?? "");
      const ageMs = Number.isNaN(bornAt) ? 0 : Math.max(0, now - bornAt);
      const bornMs = this.#monotonic() - ageMs;
      track = { uid, gates: new Map(), bornMs, boot: { id: "" } };
      this.#nodes.set(name, track);
    }
    return track;
  }

  #trackOf(node: Node, rule: string, now: Instant): Track {
    const { gates } = this.#nodeOf(node, now);
    const track = gates.get(rule) ?? { stableFromMs: 0 };
    gates.set(rule, track);
    return track;
  }
}

/**
 * Reads the start of a hold from the node once, at the first observation of a process. A later hold starts when this
 * process sees it, whatever the wall clock does. If the node reports another start, another hold has begun in between,
 * and the node's time counts.
 */
function heldFrom(track: Track, { heldSince }: Look, now: Instant, nowMs: number): number {
  const byNode = heldSince === undefined ? nowMs : nowMs - Math.max(0, now - heldSince);
  if (track.heldFromMs === undefined) return track.isLooked ? nowMs : byNode;
  const isOther = track.heldSince !== undefined && heldSince !== track.heldSince;
  return isOther ? byNode : track.heldFromMs;
}

/** Cuts an id that is longer than any kernel's, so that it fits into the state. */
function bootIdOf(node: Node): string {
  return (node.status?.nodeInfo?.bootID ?? "").slice(0, MAX_BOOT);
}

/** The latest heartbeat of the kubelet, by the node's clock. */
function heartbeatOf(node: Node): Instant | undefined {
  const times = node.status?.conditions?.map(({ lastHeartbeatTime = "" }) => Date.parse(lastHeartbeatTime));
  const known = times?.filter((at) => !Number.isNaN(at)) ?? [];
  return known.length === 0 ? undefined : Math.max(...known);
}
