/** Pods that came without Berth being asked about them, though everything said that it would be. */
import type { Pod } from "@berth/kube";
import {
  type ArchitectureAdmission,
  type ArchitectureJudgement,
  reasons,
  traceOfAdmission,
} from "@berth/placement";
import type { Change, Clock } from "@berth/runtime";

export interface PodMissOptions {
  /** By which it would be answered now; `undefined` while that is not known. */
  readonly context: () => ArchitectureAdmission | undefined;
  /** What is said of admission by those who set it up. */
  readonly admission: () => ArchitectureJudgement | undefined;
  /** `judgement` says something else. */
  readonly onChange: () => void;
  readonly clock: Clock;
}

export interface PodMisses {
  /** Policies, or what leads the API server here, have changed: for a while nothing can be told. */
  changed(): void;
  podChanged(change: Change<Pod>): void;
  /** That of `admission`, unless pods tell otherwise. */
  judgement(): ArchitectureJudgement | undefined;
}

/** API servers take a change over within about a second, and clocks differ. Milliseconds. */
const RELIED_AFTER_MS = 10_000;

/**
 * An API server that cannot reach a webhook tells nobody but its log. A pod without what admission gives pods tells, until
 * one comes with it.
 */
export function createPodMisses({ context, admission, onChange, clock }: PodMissOptions): PodMisses {
  let changedAt = clock.now();
  let missed: string | undefined;
  const isRelied = ({ metadata }: Pod): boolean =>
    admission()?.ready === true &&
    Date.parse(metadata?.creationTimestamp ?? "") >= changedAt + RELIED_AFTER_MS &&
    clock.now() >= changedAt + RELIED_AFTER_MS;
  return {
    changed() {
      changedAt = clock.now();
      missed = undefined;
    },
    podChanged(change) {
      const { type, object } = change;
      if (type !== "added" || change.initial || !isRelied(object)) return;
      const asking = context();
      const trace = asking && traceOfAdmission(asking, object);
      if (trace === undefined) return;
      const before = missed;
      const { namespace, name } = object.metadata ?? {};
      missed = trace === "asked" ? undefined : `${namespace}/${name}`;
      if ((missed === undefined) !== (before === undefined)) onChange();
    },
    judgement() {
      const said = admission();
      if (missed === undefined || said?.ready !== true) return said;
      const message =
        `pod ${missed} came without Berth being asked: the log of the API server says why it could not call the ` +
        "webhook. To a Berth outside of the cluster it finds by the url of AdmissionServer";
      return { ready: false, reason: reasons.AdmissionFailed, message };
    },
  };
}
