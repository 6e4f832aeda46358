/** The pods that Berth has found on wrong nodes, by pod and policy. */
import { type Node, type Pod, pathOf } from "@berth/kube";
import { type LostPod } from "./decide.ts";
import { isAbout, type JudgeObservations, judge } from "./judge.ts";
import type { DeschedulePolicyInForce } from "./policy.ts";

export interface LostPodsOptions extends JudgeObservations {
  readonly policies: () => readonly DeschedulePolicyInForce[];
  readonly nodeOf: (pod: Pod) => Node | undefined;
  /** Monotonic, ms. */
  readonly monotonic: () => number;
}

export class LostPods {
  readonly #options: LostPodsOptions;
  readonly #byPod = new Map<string, readonly LostPod[]>();

  constructor(options: LostPodsOptions) {
    this.#options = options;
  }

  /**
   * Judges the pod again. A pod that fits, or that Berth cannot judge, is not lost; its time begins anew later.
   * @returns whether Berth could judge it under all policies.
   */
  look(pod: Pod): boolean {
    const { policies, nodeOf, monotonic } = this.#options;
    const name = pathOf(pod.metadata);
    const before = this.#byPod.get(name) ?? [];
    let isKnown = true;
    const now: LostPod[] = [];
    for (const policy of policies()) {
      const verdict = judge(pod, nodeOf(pod), policy, this.#options);
      if (verdict.state === "unknown") isKnown = false;
      if (verdict.state !== "lost") continue;
      const last = before.find((one) => one.policy.rule === policy.rule && isSame(one.pod, pod));
      now.push({ pod, name, policy, sinceMs: last?.sinceMs ?? monotonic(), message: verdict.message });
    }
    if (now.length > 0) this.#byPod.set(name, now);
    else this.#byPod.delete(name);
    return isKnown;
  }

  isAbout(pod: Pod, policy: DeschedulePolicyInForce): boolean {
    return isAbout(pod, policy, this.#options);
  }

  /** @param name `namespace/name`. */
  forget(name: string): void {
    this.#byPod.delete(name);
  }

  clear(): void {
    this.#byPod.clear();
  }

  /** As last judged. @param rule the policy; default any. */
  has(pod: Pod, rule?: string): boolean {
    const isOf = (one: LostPod): boolean => rule === undefined || one.policy.rule === rule;
    return this.#byPod.get(pathOf(pod.metadata))?.some((one) => isOf(one) && isSame(one.pod, pod)) ?? false;
  }

  get size(): number {
    return this.#byPod.size;
  }

  /** Under the policies now in force and about the pod, also where it was judged before a policy changed. */
  all(): readonly LostPod[] {
    const inForce = new Map(this.#options.policies().map((policy) => [policy.rule, policy]));
    return [...this.#byPod.values()].flat().flatMap((one) => {
      const policy = inForce.get(one.policy.rule);
      if (policy === one.policy) return [one];
      return policy !== undefined && this.isAbout(one.pod, policy) ? [{ ...one, policy }] : [];
    });
  }
}

/** A pod of the same name may be another one. */
function isSame(a: Pod, b: Pod): boolean {
  return a.metadata?.uid === b.metadata?.uid && a.spec?.nodeName === b.spec?.nodeName;
}
