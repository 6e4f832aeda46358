/**
 * How long things have lasted on each node, by a clock that cannot jump. Kept by the process: after a restart a hold
 * goes on from the time written on the node, and signals have to be stable anew.
 */
import type { Node } from "@berth/kube";
import type { Instant } from "../capability.ts";
import type { Boot } from "./gate.ts";
import type { GateState } from "./state.ts";

/** What is asked at each look at a node. */
export interface Look {
  readonly rule: string;
  /** When the hold began as the node says; `undefined` while it is not held, or says nothing. */
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
  heldSince: Instant | undefined;
  heldFromMs: number | undefined;
  evidence: string | undefined;
  stableFromMs: number;
  unknownFromMs: number | undefined;
  stamp: { readonly key: string; readonly at: Instant } | undefined;
}

interface NodeTrack {
  readonly uid: string | undefined;
  readonly gates: Map<string, Track>;
  /** When it was made, by the clock that cannot jump. */
  readonly bornMs: number;
  /** The boot last seen by this process, and since when its containers count. */
  bootId: string;
  boots: Map<string, Instant>;
}

export interface GateClocksOptions {
  /** Milliseconds from any origin; never jumps. */
  readonly monotonic: () => number;
  /** Believe times written on objects: for a command that looks once, and changes nothing. Default false. */
  readonly trusting?: boolean;
}

export class GateClocks {
  readonly #options: GateClocksOptions;
  readonly #nodes = new Map<string, NodeTrack>();

  constructor(options: GateClocksOptions) {
    this.#options = options;
  }

  /** Nodes that something is remembered of. */
  get remembered(): number {
    return this.#nodes.size;
  }

  /** Repeating a look changes nothing. */
  look(node: Node, { rule, heldSince, evidence, unknown, holdsSince }: Look, now: Instant): GateTimes {
    const { monotonic, trusting = false } = this.#options;
    const nowMs = monotonic();
    const track = this.#trackOf(node, rule, now);
    if (heldSince === undefined) {
      track.heldFromMs = undefined;
    } else if (track.heldFromMs === undefined || (track.heldSince ?? heldSince) !== heldSince) {
      // From here on the wall clock does not count: it may jump.
      track.heldFromMs = nowMs - Math.max(0, now - heldSince);
    }
    track.heldSince = heldSince;
    if (track.evidence !== evidence) {
      track.evidence = evidence;
      track.stableFromMs =
        trusting && holdsSince !== undefined ? nowMs - Math.max(0, now - holdsSince) : nowMs;
    }
    if (!unknown) track.unknownFromMs = undefined;
    else track.unknownFromMs ??= nowMs;
    return {
      heldForMs: track.heldFromMs === undefined ? 0 : nowMs - track.heldFromMs,
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

  /**
   * The boot that the node is in. A change of the bootID while this process watches is dated by the node's own clock,
   * as the start of containers is; one that nobody saw, by when the boot before was written down.
   */
  boot(node: Node, state: GateState | undefined, now: Instant): Boot {
    const id = node.status?.nodeInfo?.bootID ?? "";
    const track = this.#nodeOf(node, now);
    const before = track.bootId;
    if (id === "") return { id };
    track.bootId = id;
    if (before !== "" && before !== id) track.boots.set(id, heartbeatOf(node) ?? now);
    const seen = track.boots.get(id);
    if (state?.boot === id || state?.boot === undefined) {
      const since = state?.bootAt ?? seen;
      return since === undefined ? { id } : { id, since };
    }
    return { id, since: seen ?? state.at };
  }

  /** Milliseconds since the node was made, by the wall clock at the first look and by the other one from then on. */
  age(node: Node, now: Instant): number {
    return this.#options.monotonic() - this.#nodeOf(node, now).bornMs;
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
      const bornMs = this.#options.monotonic() - ageMs;
      track = { uid, gates: new Map(), bornMs, bootId: "", boots: new Map() };
      this.#nodes.set(name, track);
    }
    return track;
  }

  #trackOf(node: Node, rule: string, now: Instant): Track {
    const { gates } = this.#nodeOf(node, now);
    let track = gates.get(rule);
    if (track === undefined) {
      track = {
        heldSince: undefined,
        heldFromMs: undefined,
        evidence: undefined,
        stableFromMs: 0,
        unknownFromMs: undefined,
        stamp: undefined,
      };
      gates.set(rule, track);
    }
    return track;
  }
}

/** The latest time at which the kubelet reported, by its own clock. */
function heartbeatOf(node: Node): Instant | undefined {
  let latest: Instant | undefined;
  for (const { lastHeartbeatTime } of node.status?.conditions ?? []) {
    const at = Date.parse(lastHeartbeatTime ?? "");
    if (!Number.isNaN(at) && (latest === undefined || at > latest)) latest = at;
  }
  return latest;
}
