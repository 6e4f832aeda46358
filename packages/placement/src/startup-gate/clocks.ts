import type { Node } from "@berth/kube";
import type { Instant } from "../node/capability.ts";
import type { Boot } from "./gate.ts";
import { type GateState, MAX_BOOT, type Trial } from "./state.ts";

/** What is asked at each look at a node. */
export interface Look {
  readonly rule: string;
  /** The node is held and waits for no other gate. */
  readonly held: boolean;
  /** When the hold began as the node says; `undefined` while it says nothing. */
  readonly heldSince: Instant | undefined;
  /** Do all signals hold, going by what; `undefined` when they do not, or are not looked at. */
  readonly evidence: string | undefined;
  /** Some signal cannot be read. */
  readonly unknown: boolean;
  /** When the signals began to hold as the objects say it; only taken on trust by a command that looks once. */
  readonly holdsSince?: Instant | undefined;
}

/** Milliseconds. */
export interface GateTimes {
  readonly heldForMs: number;
  readonly stableForMs: number;
  readonly unknownForMs: number;
}

interface Track {
  /** What begins now has begun before this process looked first, or since it looked last. */
  isLooked?: true;
  heldSince?: Instant | undefined;
  heldFromMs?: number | undefined;
  evidence?: string | undefined;
  stableFromMs: number;
  unknownFromMs?: number | undefined;
  stamp?: { readonly key: string; readonly at: Instant } | undefined;
  /** Of a gate in dry run. */
  trial?: Trial;
}

interface NodeTrack {
  readonly uid: string | undefined;
  readonly gates: Map<string, Track>;
  /** When it was made, by the clock that cannot jump. */
  readonly bornMs: number;
  /** The boot last seen by this process, and since when its containers count, if this process saw it begin. */
  boot: Boot;
}

/** A reboot takes longer than most watches are broken for; containers of the boot before are as much older. */
const UNSEEN_MS = 30_000;

/**
 * How long things have lasted on each node, by a clock that cannot jump. Kept by the process: after a restart a hold
 * goes on from the time written on the node, and signals have to be stable anew.
 */
export class GateClocks {
  readonly #monotonic: () => number;
  readonly #trusting: boolean;
  readonly #nodes = new Map<string, NodeTrack>();

  /**
   * @param monotonic milliseconds from any origin; never jumps.
   * @param trusting believes times written on objects: for a command that looks once, and changes nothing.
   */
  constructor({ monotonic, trusting = false }: { monotonic: () => number; trusting?: boolean }) {
    this.#monotonic = monotonic;
    this.#trusting = trusting;
  }

  get remembered(): number {
    return this.#nodes.size;
  }

  /** Repeating a look changes nothing. */
  look(node: Node, look: Look, now: Instant): GateTimes {
    const { rule, held, evidence, unknown, holdsSince } = look;
    const nowMs = this.#monotonic();
    const track = this.#trackOf(node, rule, now);
    const heldFromMs = held ? heldFrom(track, look, now, nowMs) : undefined;
    // Something else is decided now, though it may be called by the same name.
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
   * The moment at which this was decided first: a change that is decided again, because its patch was refused or lost a
   * race, is the same change.
   */
  stamp(node: Node, rule: string, key: string, now: Instant): Instant {
    const track = this.#trackOf(node, rule, now);
    if (track.stamp?.key !== key) track.stamp = { key, at: now };
    return track.stamp.at;
  }

  /** The dry run of a gate on this node: the one that goes on, or the one that `next` makes of it. */
  trial(node: Node, rule: string, now: Instant, next: (current: Trial | undefined) => Trial): Trial {
    const track = this.#trackOf(node, rule, now);
    track.trial = next(track.trial);
    return track.trial;
  }

  /**
   * A change of the bootID while this process watches is dated by the node's own clock, as the start of containers is: by
   * the first heartbeat seen of it, less what may have gone by unseen while a watch was broken. One that happened while
   * nobody watched, by when the boot before was written down.
   */
  boot(node: Node, state: GateState | undefined, now: Instant): Boot {
    const id = bootIdOf(node);
    const track = this.#nodeOf(node, now);
    const { id: before } = track.boot;
    if (id !== "" && before === "") track.boot = { id };
    else if (id !== "" && before !== id) track.boot = { id, since: (heartbeatOf(node) ?? now) - UNSEEN_MS };
    return this.bootOf(node, state);
  }

  /** The same from what is known already; nothing is remembered of it. */
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

  /** Milliseconds since the node was made, by the wall clock at the first look and by the other one from then on. */
  age(node: Node, now: Instant): number {
    return this.#monotonic() - this.#nodeOf(node, now).bornMs;
  }

  /** The gate has nothing to do with the node at present: what begins later, begins anew. */
  rest({ metadata }: Node, rule: string): GateTimes {
    this.#nodes.get(metadata?.name ?? "")?.gates.delete(rule);
    return { heldForMs: 0, stableForMs: 0, unknownForMs: 0 };
  }

  /** Forgets the gates that are in neither. What is not looked at for a while has to be stable anew. */
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
 * What the node says of the beginning of a hold is asked once, at the first look of a process: a hold that begins later
 * began when it was seen, whatever the wall clock does meanwhile. Unless the node says something else all of a sudden:
 * then another hold has begun in between.
 */
function heldFrom(track: Track, { heldSince }: Look, now: Instant, nowMs: number): number {
  const byNode = heldSince === undefined ? nowMs : nowMs - Math.max(0, now - heldSince);
  if (track.heldFromMs === undefined) return track.isLooked ? nowMs : byNode;
  const isOther = track.heldSince !== undefined && heldSince !== track.heldSince;
  return isOther ? byNode : track.heldFromMs;
}

/** Longer ones than any that a kernel gives are cut, so that they fit into the state. */
function bootIdOf(node: Node): string {
  return (node.status?.nodeInfo?.bootID ?? "").slice(0, MAX_BOOT);
}

/** The latest time at which the kubelet reported, by its own clock. */
function heartbeatOf(node: Node): Instant | undefined {
  const times = node.status?.conditions?.map(({ lastHeartbeatTime = "" }) => Date.parse(lastHeartbeatTime));
  const known = times?.filter((at) => !Number.isNaN(at)) ?? [];
  return known.length === 0 ? undefined : Math.max(...known);
}
