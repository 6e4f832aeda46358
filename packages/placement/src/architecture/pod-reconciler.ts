/** Carries out the decisions about unscheduled pods. */
import { type Intent, type ObjectDecision, type ObjectRules } from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import type { Clock } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";
import { taintKeys } from "./compile.ts";
import { decidePod, isUnscheduled, type PodDecision, podName } from "./decide-pod.ts";
import { governing } from "./govern.ts";
import type { ImageDemand, ImageObservations } from "./image-observations.ts";
import { imageUses } from "./images.ts";
import { nothingOpen, type WorkloadObserver, type WorkloadOutcome } from "./pod-view.ts";
import type { ArchitecturePolicies } from "./policy.ts";
import { decideUnknownNamespace } from "./unknown-namespace.ts";

export interface PodRulesOptions {
  /** Labels of a namespace; `undefined` while they are not known: its pods wait. */
  readonly namespaceLabels: (namespace: string) => Readonly<Record<string, string>> | undefined;
  /** `undefined` until Berth has read all sources: until then it does nothing. */
  readonly policies: () => ArchitecturePolicies | undefined;
  readonly ownNamespace?: string | undefined;
  readonly observations: ImageObservations;
  readonly demand: ImageDemand;
  readonly observer?: WorkloadObserver;
  readonly report?: PodReport;
  readonly clock: Clock;
  /** Receives each pod that Berth decides about, as `podName`, and loses pods that are gone. */
  readonly looked?: Set<string>;
}

/** For metrics. */
export interface PodReport {
  /** Berth has changed a pod, with the reason of its verdict. */
  changed(reason: string): void;
  /** Berth has lifted our gate this long after the creation of the pod, ms. */
  lifted(heldMs: number): void;
}

/** State that Berth keeps for a pod while it has no node. */
interface PodPast {
  rule: string | undefined;
  seenSince: Instant;
  /** The images that it names. `imagesSince`: when they changed, if they have. */
  images: string;
  imagesSince: Instant;
}

type Decision = ObjectDecision & { readonly outcome: WorkloadOutcome };

/** If admission refuses a patch, Berth sends one that only lifts the gate, and then nothing for 30 s. */
export function podRules(options: PodRulesOptions): ObjectRules<Pod, PodPast, Decision> {
  const { clock, demand, observer, report, ownNamespace, observations } = options;
  return {
    resource: pods,
    action: "PlacePod",
    refusedAs: reasons.PodPatchRefused,
    decide(pod, past, { namespace }) {
      options.looked?.add(podName(pod));
      // A finalizer may keep a deleted pod for long, but it must not hold up the bootstrap.
      if (!isUnscheduled(pod)) return { outcome: nothingOpen };
      const inForce = options.policies();
      // A policy that Berth has not read yet may govern it.
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
          ? decidePod({ ...view, policy, observations, imagesSince, refusal })
          : decideUnknownNamespace({ ...view, policies });
      let decision = look();
      if (decision.wants.length > 0) {
        for (const want of decision.wants) demand.want(want);
        // Second look: while Berth asks the registry again, an expired failure still counts and is not `unknown`.
        decision = look();
      }
      const { outcome, finding, recheckAfterMs } = decision;
      return {
        outcome,
        // Registry messages differ between looks, so rule and images identify the finding.
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

/** Patches the condition first: Berth may not watch the pod any more once it is released. */
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
      // The API server lets no controller remove these additions again.
      gives: [],
      ...(lift && { orElse: { ...about, patch: { type: "json", body: lift } } }),
    });
  }
  return intents;
}
