/** Has done what is decided about unscheduled pods: one patch for each at most, or nothing. */
import { type Intent, type ObjectDecision, type ObjectRules } from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import type { Clock } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";
import { taintKeys } from "./compile.ts";
import { decidePod, isUnscheduled, type PodDecision, podName } from "./decide-pod.ts";
import { governing } from "./govern.ts";
import type { ImageDemand, ImageSight } from "./image-sight.ts";
import { imageUses } from "./images.ts";
import { nothingOpen, type WorkloadObserver, type WorkloadOutcome } from "./pod-view.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import { decideUnknownNamespace } from "./unknown-namespace.ts";

export interface PodRulesOptions {
  /** Labels of a namespace; `undefined` while they are not known: its pods wait. */
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;
  /** `undefined` until all sources were read: nothing is done. */
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly ownNamespace?: string | undefined;
  readonly sight: ImageSight;
  readonly demand: ImageDemand;
  readonly observer?: WorkloadObserver;
  readonly report?: PodReport;
  readonly clock: Clock;
  /** Gets the pods that were decided about, as `podName`; those that are gone leave it. */
  readonly looked?: Set<string>;
}

/** For metrics. */
export interface PodReport {
  /** A pod was changed, with the reason of its verdict. */
  changed(reason: string): void;
  /** Our gate was lifted so long after the pod was made, ms. */
  lifted(heldMs: number): void;
}

/** What is remembered of a pod while it has no node. */
interface PodPast {
  rule: string | undefined;
  seenSince: Instant;
  /** The images it names; and since when, where these are others than it was first seen with. */
  images: string;
  imagesSince: Instant;
}

type Decision = ObjectDecision & { readonly outcome: WorkloadOutcome };

/** A patch that admission refuses is followed by one that only lifts the gate, and then by nothing for 30 s. */
export function podRules(options: PodRulesOptions): ObjectRules<Pod, PodPast, Decision> {
  const { clock, demand, observer, report, ownNamespace, sight } = options;
  return {
    resource: pods,
    action: "PlacePod",
    refusedAs: reasons.PodPatchRefused,
    decide(pod, past, { namespace }) {
      options.looked?.add(podName(pod));
      // One that is being deleted is still there, for as long as a finalizer stands, and keeps nobody waiting.
      if (!isUnscheduled(pod)) return { outcome: nothingOpen };
      const inForce = options.policies();
      // A policy that is not known yet may govern it.
      if (inForce === undefined || inForce.policy.isUndecided) return undefined;
      const { policies } = inForce;
      const namespaceLabels = options.namespaceLabels(namespace);
      const isKnown = namespaceLabels !== undefined || namespace === ownNamespace;
      const where = { namespace, namespaceLabels, labels: pod.metadata?.labels };
      const policy = isKnown ? governing({ policies, ownNamespace }, where) : undefined;
      const now = clock.now();
      const { seenSince, imagesSince } = remember(past, pod, { rule: policy?.rule, now });
      const view = { pod, keys: taintKeys(inForce), now, seenSince };
      const look = (refusal?: string): PodDecision =>
        isKnown
          ? decidePod({ ...view, policy, sight, imagesSince, refusal })
          : decideUnknownNamespace({ ...view, policies });
      let decision = look();
      if (decision.wants.length > 0) {
        for (const want of decision.wants) demand.want(want);
        // Again: a failure whose time is over counts on while it is asked about, and not as if nothing were known of it.
        decision = look();
      }
      const { outcome, finding, recheckAfterMs } = decision;
      return {
        outcome,
        // Messages of registries differ from look to look, and a registry that is down is now asked, now left alone.
        findings: finding ? [{ ...finding, about: `${past.rule} ${past.images}` }] : [],
        intents: intentsOf(decision, () => look("refused")),
        recheckAfterMs,
      };
    },
    decided: (pod, { outcome }) => observer?.decided(podName(pod), outcome),
    gone({ namespace, name }) {
      options.looked?.delete(`Pod ${namespace}/${name}`);
      observer?.gone(`Pod ${namespace}/${name}`);
    },
    done(pod, intent) {
      if (intent.do !== "patch" || intent.patch.type !== "json") return;
      report?.changed(intent.reason);
      const createdAt = Date.parse(pod.metadata?.creationTimestamp ?? "");
      const isLifted = intent.patch.body.some(({ op }) => op === "remove");
      if (isLifted && !Number.isNaN(createdAt)) report?.lifted(Math.max(0, clock.now() - createdAt));
    },
  };
}

function remember(
  past: Partial<PodPast>,
  { metadata, spec }: Pod,
  { rule, now }: { readonly rule: string | undefined; readonly now: Instant },
): Pick<PodPast, "seenSince"> & Partial<PodPast> {
  const uses = imageUses(spec ?? { containers: [] }, metadata?.namespace ?? "");
  const images = uses.map(({ question }) => question.image).join("\n");
  if (past.images !== undefined && past.images !== images) past.imagesSince = now;
  const { seenSince = now } = past.rule === rule ? past : {};
  return Object.assign(past, { images, rule, seenSince });
}

/** What is wrong with the condition goes first: a pod that is let go may leave our view. */
function intentsOf(
  { condition, patch, verdict, isLifted }: PodDecision,
  refused: () => PodDecision,
): readonly Intent[] {
  const { reason, message } = verdict;
  const intents: Intent[] = [];
  if (condition !== undefined) {
    const gives = [`${reason} ${message}`];
    const change = { type: "strategic", body: condition } as const;
    intents.push({ do: "patch", subresource: "status", patch: change, reason, message, gives });
  }
  if (patch !== undefined) {
    const about = { do: "patch", reason, message, what: "the pod" } as const;
    const lift = isLifted ? refused().patch : undefined;
    intents.push({
      ...about,
      patch: { type: "json", body: patch },
      // Nobody can take it off again.
      gives: [],
      ...(lift && { orElse: { ...about, patch: { type: "json", body: lift } } }),
    });
  }
  return intents;
}
