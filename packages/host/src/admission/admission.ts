/** Admission of all rules: one webhook server, the objects that lead to it, and whether that works. */
import type { KubeObject } from "@berth/kube";
import {
  type Change,
  type Component,
  createLoopComponent,
  isSameData,
  type Subscribable,
  sleep,
  whenAborted,
} from "@berth/runtime";
import type { KeeperOptions } from "./keepers.ts";
import { type AdmissionState, KeptRules, type Merging } from "./kept.ts";
import { areTogether, type MergedReview, mergeReviews } from "./merge.ts";
import { hasOlder } from "./questions.ts";
import type { AdmissionEnv, BoundRules } from "./rules.ts";
import { createWebhookServer } from "./server.ts";
import type { AdmissionSettings } from "./settings.ts";

export interface AdmissionMember {
  readonly rules: BoundRules;
  /** `state` may say something else. */
  readonly onChange: () => void;
  /** Objects that tell whether they have passed, unless they are told by `seen`. */
  readonly arrivals?: Subscribable<KubeObject>;
}

export interface AdmissionOptions extends KeeperOptions {
  readonly installation: string;
  /** In the order in which they answer. */
  readonly members: readonly AdmissionMember[];
  readonly lease?: { readonly namespace: string; readonly name: string };
}

/** One set of rules. */
export interface AdmissionHandle {
  /** `undefined` while it is not known, or nothing is wanted. */
  state(): AdmissionState | undefined;
  /** Other documents are in force. */
  changed(): void;
  seen(change: Change<KubeObject>): void;
}

export interface Admission {
  /** By the name of the rules. */
  readonly of: (name: string) => AdmissionHandle | undefined;
  /** What every replica runs. */
  readonly always: readonly Component[];
  /** What the leader runs. */
  readonly elected: readonly Component[];
}

/** How often states are looked at: they also change with time, and with what the API server refuses or accepts. Milliseconds. */
const LOOK_MS = 3000;

/**
 * Reviews that are merged move from one configuration to another as documents come and go. What takes over is written first; what
 * asks for nothing any more goes when that has stood for a look, and no replica of another version answers: it may not answer for both.
 */
export function createAdmission(
  settings: AdmissionSettings,
  { members, installation, ...options }: AdmissionOptions,
): Admission {
  const { client, clock, log } = options;
  const { spec, namespace, podName } = settings;
  const env: AdmissionEnv = { installation, spec, ...(namespace !== undefined && { namespace }) };
  let merged: ReadonlyMap<string, readonly MergedReview[]> = new Map();
  /** Those whose configuration stood at the last look, and has been wanted as it is since. */
  let calm: ReadonlySet<KeptRules> = new Set();
  let mayBeOlder = namespace !== undefined && podName !== undefined;
  const reviewsOf = ({ name }: BoundRules): readonly MergedReview[] => merged.get(name) ?? [];
  /** Others with which one call is shared when both want to be asked. */
  const rivalsOf = (rules: BoundRules): readonly KeptRules[] =>
    kept.filter((other) =>
      rules.reviews.some((review) =>
        other.rules.reviews.some(
          (it) =>
            other.rules !== rules &&
            it.failurePolicy(env) === review.failurePolicy(env) &&
            areTogether([rules, review], [other.rules, it]),
        ),
      ),
    );
  /** Another configuration asks for what its own would ask. */
  const isAbsorbed = ({ rules, isNeeded }: KeptRules): boolean => isNeeded && reviewsOf(rules).length === 0;
  const merging: Merging = {
    reviewsOf,
    carriersOf: ({ name }) =>
      kept.filter(({ rules }) => reviewsOf(rules).some(({ of }) => of.includes(name))),
    isKnown: (rules) =>
      rivalsOf(rules).every(({ rules: { read } }) => !["unread", "reading"].includes(read())),
    mayRemove: (rules) =>
      rivalsOf(rules).every(
        (rival) => !rival.isNeeded || isAbsorbed(rival) || (calm.has(rival) && rival.isCalm),
      ) && !(mayBeOlder && kept.some((it) => it.rules === rules && isAbsorbed(it))),
  };
  const changed = (): void => {
    calm = new Set();
    const needed = kept.filter(({ isNeeded }) => isNeeded);
    merged = mergeReviews(
      needed.map(({ rules }) => rules),
      env,
    );
    for (const one of kept) one.refresh();
  };
  const webhook = createWebhookServer(settings, {
    ...options,
    env,
    rules: members.map(({ rules }) => rules),
    onChange() {
      changed();
      for (const { onChange } of members) onChange();
    },
  });
  const kept = members.map(
    ({ rules }) => new KeptRules(rules, { ...options, settings, env, webhook, merging }),
  );
  const byName = new Map(members.map((member, at) => [member.rules.name, { member, one: kept[at] }]));
  const report = createLoopComponent({
    name: "admission-report",
    async run(signal) {
      const told = new Map(kept.map((one) => [one, one.base()]));
      while (await sleep(clock, LOOK_MS, signal)) {
        if (mayBeOlder && kept.some(isAbsorbed)) mayBeOlder = await isOlderThere(signal);
        for (const one of kept) if (one.isWaiting) one.refresh();
        calm = new Set(kept.filter(({ isCalm }) => isCalm));
        for (const { member, one } of byName.values()) {
          const state = one?.base();
          if (one === undefined || isSameData(state, told.get(one))) continue;
          told.set(one, state);
          one.passed.changed();
          member.onChange();
        }
      }
    },
  });
  const isOlderThere = async (signal: AbortSignal): Promise<boolean> => {
    if (namespace === undefined || podName === undefined) return false;
    try {
      return await hasOlder(client, { namespace, installation, podName }, signal);
    } catch (error) {
      if (!signal.aborted) log.debug("other replicas could not be looked at", { error: String(error) });
      return true;
    }
  };
  const handleOf = ({
    member,
    one,
  }: {
    readonly member: AdmissionMember;
    readonly one: KeptRules;
  }): AdmissionHandle => ({
    state: () => one.state(),
    changed() {
      one.changed();
      changed();
      member.onChange();
    },
    seen(change) {
      if (one.passed.seen(change)) member.onChange();
    },
  });
  const handles = new Map(
    [...byName].flatMap(([name, { member, one }]) => (one ? [[name, handleOf({ member, one })]] : [])),
  );
  const arrivals = members.flatMap(({ arrivals: from, rules: { name } }) =>
    from === undefined
      ? []
      : [
          createLoopComponent({
            name: `${name}-admission-misses`,
            async run(signal) {
              using _subscribed = from.subscribe({ onChange: (change) => handles.get(name)?.seen(change) });
              await whenAborted(signal);
            },
          }),
        ],
  );
  return {
    of: (name) => handles.get(name),
    always: [webhook.component, ...kept.flatMap(({ always }) => always), ...arrivals],
    elected: [...kept.map(({ elected }) => elected), report],
  };
}
