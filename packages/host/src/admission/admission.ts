/** Admission of all rules: one webhook server, the objects that make the API server call it, and their state. */
import type { KubeClient, KubeObject } from "@berth/kube";
import {
  type Change,
  type Component,
  createLoopComponent,
  isSameData,
  type Subscribable,
  sleep,
  whenAborted,
} from "@berth/runtime";
import type { Installed } from "../product.ts";
import { documentWarnings, type ReviewedKind } from "./document-warnings.ts";
import type { KeeperOptions } from "./keepers.ts";
import { type AdmissionState, KeptRules, type Merging } from "./kept.ts";
import { areTogether, type MergedReview, mergeReviews } from "./merge.ts";
import { hasOlder } from "./questions.ts";
import type { AdmissionEnv, BoundRules } from "./rules.ts";
import { createWebhookServer } from "./server.ts";
import type { AdmissionSettings } from "./settings.ts";

export interface AdmissionMember {
  readonly rules: BoundRules;
  /** Called when `state` may return another value. */
  readonly onChange: () => void;
  /** Objects that show whether admission changed them. Absent: the capability passes them to `seen`. */
  readonly arrivals?: Subscribable<KubeObject>;
}

export interface AdmissionOptions extends KeeperOptions, Installed {
  /** In the order in which they answer. */
  readonly members: readonly AdmissionMember[];
  /** Whose authors are warned while the API server asks about members. Default none. */
  readonly documents?: readonly ReviewedKind[];
  readonly lease?: { readonly namespace: string; readonly name: string };
  /** Asks what reviews need to know. Default: `client`. */
  readonly questions?: KubeClient;
}

/** The admission of one set of rules. */
export interface AdmissionHandle {
  /** `undefined` while the state is not known, or while the documents ask for nothing. */
  state(): AdmissionState | undefined;
  /** To be called when other documents came into force. */
  changed(): void;
  seen(change: Change<KubeObject>): void;
}

export interface Admission {
  /** Finds the handle by the name of the rules. */
  readonly of: (name: string) => AdmissionHandle | undefined;
  /** Components that every replica runs. */
  readonly always: readonly Component[];
  /** Components that only the leader runs. */
  readonly elected: readonly Component[];
}

/** Interval between two checks of the states, ms. A state also changes with time and with answers of the API server. */
const LOOK_MS = 3000;

/**
 * When documents change, a merged review can move to another configuration. Berth writes the new carrier first. It
 * removes an empty configuration one check later, and only when no replica with another pod template runs.
 */
export function createAdmission(
  settings: AdmissionSettings,
  { members, documents = [], product, installation, ...options }: AdmissionOptions,
): Admission {
  const { client, clock, log } = options;
  const { spec, namespace, podName } = settings;
  const env: AdmissionEnv = { product, installation, spec, ...(namespace !== undefined && { namespace }) };
  let merged: ReadonlyMap<string, readonly MergedReview[]> = new Map();
  /** Rules whose configuration was settled at the last check, and has not changed since. */
  let calm: ReadonlySet<KeptRules> = new Set();
  let mayBeOlder = namespace !== undefined && podName !== undefined;
  const reviewsOf = ({ name }: BoundRules): readonly MergedReview[] => merged.get(name) ?? [];
  /** Other rules that share a call with these when both have reviews. */
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
  /** Is its configuration empty because another configuration asks for its reviews? */
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
  /** `undefined`: not known yet. */
  const isServed = (): boolean | undefined => {
    const others = kept.filter(({ rules }) => !riders.includes(rules));
    const asked = new Set(others.map(({ isByWebhook }) => isByWebhook));
    return asked.has(true) || (asked.has(undefined) ? undefined : false);
  };
  const riders = documents.length === 0 ? [] : [documentWarnings(documents, isServed)];
  let wasServed: boolean | undefined;
  /** @returns whether the riders have changed with the others. */
  const follow = (): boolean => {
    const served = isServed();
    if (served === wasServed) return false;
    wasServed = served;
    for (const one of kept) if (riders.includes(one.rules)) one.changed();
    return true;
  };
  const changed = (): void => {
    follow();
    calm = new Set();
    const needed = kept.filter(({ isNeeded }) => isNeeded);
    merged = mergeReviews(
      needed.map(({ rules }) => rules),
      env,
    );
    for (const one of kept) one.refresh();
  };
  const all = [...members.map(({ rules }) => rules), ...riders];
  const webhook = createWebhookServer(settings, {
    ...options,
    env,
    rules: all,
    onChange() {
      changed();
      for (const { onChange } of members) onChange();
    },
  });
  const kept = all.map((rules) => new KeptRules(rules, { ...options, settings, env, webhook, merging }));
  const byName = new Map(members.map((member, at) => [member.rules.name, { member, one: kept[at] }]));
  const report = createLoopComponent({
    name: "admission-report",
    async run(signal) {
      const told = new Map(kept.map((one) => [one, one.base()]));
      while (await sleep(clock, LOOK_MS, signal)) {
        if (mayBeOlder && kept.some(isAbsorbed)) mayBeOlder = await isOlderThere(signal);
        for (const one of kept) if (one.isWaiting) one.refresh();
        if (follow()) changed();
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
      return await hasOlder(client, { product, installation, namespace, podName }, signal);
    } catch (error) {
      if (!signal.aborted)
        log.debug("the state of other replicas could not be read", { error: String(error) });
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
