/** Random lives of pods, and what must hold of them: said here once more, and not by the judgement under test. */
import { applyPatch } from "@berth/host";
import type { Pod, PodSpec } from "@berth/kube";
import { createVirtualClock, type VirtualClock } from "@berth/runtime";
import { aNode } from "@berth/testcluster";
import * as fc from "fast-check";
import { matchesNodeSelectorTerms } from "../../node/selector.ts";
import { clientOf, lookingAt } from "../../node/testing/object-run.ts";
import { admitPod } from "../admit.ts";
import { podRules } from "../pod-reconciler.ts";
import { type Known, sightOf } from "./observations.ts";
import { PodServer, type PodWrite } from "./pod-server.ts";
import { type PolicyInit, policiesOf } from "./policies.ts";

const GATE = "berth.dev/architecture";
const KEY = "supported-arch";
export const MAX_HOLD_MS = 30_000;
const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";

/** What the registry would say, if it said something. */
const TRUTH: Readonly<Record<string, readonly string[]>> = {
  amd: ["amd64"],
  arm: ["arm64"],
  multi: ["amd64", "arm64"],
};
const IMAGES = Object.keys(TRUTH);
const NAMES = ["a", "b", "c"];
const POLICIES: readonly (PolicyInit | undefined)[] = [
  { mode: "Affinity" },
  { mode: "Both" },
  { mode: "Taint" },
  { mode: "Affinity", afterMaxHold: "Keep" },
  { mode: "Both", unresolvable: "Closed" },
  { mode: "Affinity", afterMaxHold: "Fallback", fallbackArchitectures: ["arm64"], impossible: "Hold" },
  { mode: "Both", podSelector: { matchLabels: { app: "a" } } },
  undefined,
];

type Step =
  | {
      readonly do: "create";
      readonly name: string;
      readonly images: readonly string[];
      readonly webhook: boolean;
    }
  | { readonly do: "fact"; readonly image: string; readonly fact: "known" | "lost" | "away" | "absent" }
  | { readonly do: "policy"; readonly at: number }
  | { readonly do: "optOut"; readonly isOut: boolean }
  | { readonly do: "bind" | "remove" | "touch" | "catchUp" | "reconcile"; readonly name: string }
  | { readonly do: "wait"; readonly ms: number };

const name = fc.constantFrom(...NAMES);
export const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant("create" as const),
    name,
    images: fc.array(fc.constantFrom(...IMAGES), { minLength: 1, maxLength: 2 }),
    webhook: fc.boolean(),
  }),
  fc.record({
    do: fc.constant("fact" as const),
    image: fc.constantFrom(...IMAGES),
    fact: fc.constantFrom("known", "known", "lost", "away", "absent"),
  }),
  fc.record({ do: fc.constant("policy" as const), at: fc.nat(POLICIES.length - 1) }),
  fc.record({ do: fc.constant("optOut" as const), isOut: fc.boolean() }),
  fc.record({ do: fc.constantFrom("bind", "remove", "touch", "catchUp", "reconcile", "reconcile"), name }),
  fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(500, 5000, MAX_HOLD_MS) }),
);

export class World {
  readonly clock: VirtualClock = createVirtualClock();
  readonly server: PodServer = new PodServer({ onWrite: (write) => this.#checkWrite(write) });
  readonly facts: Map<string, Known> = new Map();
  policy: PolicyInit | undefined = POLICIES[0];
  isOut = false;
  /** How often policies, namespaces or image facts changed. After each such change a pod may need one more patch. */
  changes = 0;
  readonly #writes = new Map<string, number>();
  /** `changes` when the pod was made. */
  readonly #born = new Map<string, number>();
  readonly #look = lookingAt({
    rules: podRules({
      namespaceLabels: () => this.labels,
      policies: () => this.policies,
      observations: { look: (question) => this.observations.look(question) },
      demand: { want: () => undefined },
      clock: this.clock,
    }),
    objects: this.server.reader,
    client: clientOf({ patch: (pod, patch) => this.server.send(pod, patch) }),
    clock: this.clock,
  });

  get labels(): Readonly<Record<string, string>> {
    return this.isOut ? { "berth.dev/architecture": "ignore" } : {};
  }

  get policies(): ReturnType<typeof policiesOf> {
    return policiesOf(this.policy === undefined ? {} : { p: this.policy });
  }

  get observations(): ReturnType<typeof sightOf> {
    return sightOf(Object.fromEntries(this.facts));
  }

  async act(it: Step): Promise<void> {
    if (it.do === "create") this.#create(it);
    else if (it.do === "fact") this.#learn(it.image, it.fact);
    else if (it.do === "policy") [this.policy, this.changes] = [POLICIES[it.at], this.changes + 1];
    else if (it.do === "optOut") [this.isOut, this.changes] = [it.isOut, this.changes + 1];
    else if (it.do === "wait") await this.clock.advance(it.ms);
    else if (it.do === "bind") this.#edit(it.name, (spec) => ({ ...spec, nodeName: "n" }));
    else if (it.do === "touch")
      this.#edit(it.name, (spec) => ({ ...spec, priority: (spec.priority ?? 0) + 1 }));
    else if (it.do === "remove") this.server.remove(it.name);
    else if (it.do === "catchUp") this.server.catchUp(it.name);
    else await this.reconcile(it.name);
  }

  async reconcile(pod: string): Promise<void> {
    await this.#look("default", pod);
  }

  /** Every pod is told of and looked at, until nothing is sent any more. */
  async settle(): Promise<void> {
    for (let requests = -1; requests !== this.server.requests; ) {
      requests = this.server.requests;
      for (const pod of NAMES) {
        this.server.catchUp(pod);
        await this.reconcile(pod);
      }
    }
  }

  #learn(image: string, fact: "known" | "lost" | "away" | "absent"): void {
    this.changes += 1;
    const truth = TRUTH[image] ?? [];
    if (fact === "known") this.facts.set(image, truth);
    else if (fact === "lost") this.facts.delete(image);
    else this.facts.set(image, { failed: fact === "away" ? "RegistryUnreachable" : "ImageNotFound" });
  }

  #create({ name: pod, images, webhook }: Step & { readonly do: "create" }): void {
    if (this.server.pods.has(pod)) return;
    const containers = images.map((image, at) => ({ name: `c${at}`, image }));
    const sent: Pod = {
      metadata: { name: pod, namespace: "default", labels: { app: pod } },
      spec: { containers },
    };
    const context = {
      policies: this.policies.policies,
      namespaceLabels: () => this.labels,
      observations: this.observations,
      now: this.clock.now(),
    };
    const answer = admitPod(context, {
      kind: { kind: "Pod" },
      operation: "CREATE",
      object: sent,
      namespace: "default",
    });
    if (webhook && !answer.allowed) return;
    const admitted = webhook && answer.allowed ? (applyPatch(sent, answer.patch) as Pod) : sent;
    this.#writes.delete(pod);
    this.#born.set(pod, this.changes);
    this.server.create(admitted, this.clock.now());
  }

  #edit(pod: string, change: (spec: PodSpec) => PodSpec): void {
    this.server.edit(pod, (it) => ({ ...it, spec: change(it.spec ?? { containers: [] }) }));
  }

  /** Architectures of the images that are known, the failures of the others. */
  known(pod: Pod): { readonly common: readonly string[] | undefined; readonly open: readonly string[] } {
    const facts = (pod.spec?.containers ?? []).map(({ image = "" }) => this.facts.get(image));
    const sets = facts.flatMap((it) => (it === undefined || "failed" in it ? [] : [it]));
    const open = facts.flatMap((it) => (it === undefined ? ["lost"] : "failed" in it ? [it.failed] : []));
    if (sets.length === 0) return { common: undefined, open };
    return { common: ["amd64", "arm64"].filter((it) => sets.every((set) => set.includes(it))), open };
  }

  isNarrowed(pod: Pod): boolean {
    const { policy, isOut } = this;
    if (policy === undefined || policy.mode === "Taint" || isOut) return false;
    return policy.podSelector === undefined || pod.metadata?.labels?.["app"] === "a";
  }

  #checkWrite({ name: pod, before, after }: PodWrite): void {
    const count = (this.#writes.get(pod) ?? 0) + 1;
    this.#writes.set(pod, count);
    const changes = this.changes - (this.#born.get(pod) ?? 0);
    check(count <= 1 + changes, "one patch on a miss, and one more for what changes");
    check(
      runsOn(after).every((it) => runsOn(before).includes(it)),
      "it is only narrowed",
    );
    if (!isGated(before) || isGated(after) || !this.isNarrowed(before)) return;
    const { common, open } = this.known(before);
    const { unresolvable = "Open", afterMaxHold = "Release" } = this.policy ?? {};
    const isOpen = unresolvable === "Open";
    const isLate = this.clock.now() - Date.parse(before.metadata?.creationTimestamp ?? "") >= MAX_HOLD_MS;
    const isDecided = open.length === 0 || (isOpen && open.every((it) => it === "ImageNotFound"));
    const isReleased = isLate && afterMaxHold !== "Keep" && (isOpen || open.every((it) => it === "lost"));
    check(isDecided || isReleased, "it is let go by a verdict, or by maxHold");
    check(common === undefined || common.length > 0, "it is let go only if it can run");
    check(common === undefined || runsOn(after).every((it) => common.includes(it)), "it runs where it can");
  }
}

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(`not so: ${what}`);
}

function isGated({ spec }: Pod): boolean {
  return spec?.schedulingGates?.some((gate) => gate.name === GATE) ?? false;
}

function runsOn({ spec }: Pod): readonly string[] {
  const terms = spec?.affinity?.nodeAffinity?.[REQUIRED]?.nodeSelectorTerms;
  return ["amd64", "arm64"].filter((arch) => {
    const node = aNode("n").labelled({ "kubernetes.io/arch": arch, "kubernetes.io/os": "linux" }).build();
    return terms === undefined || matchesNodeSelectorTerms(terms, node);
  });
}

export function checkSettled(world: World): void {
  const taints = world.policy !== undefined && world.policy.mode !== "Affinity";
  for (const pod of world.server.pods.values()) {
    if (pod.spec?.nodeName !== undefined) continue;
    const { common, open } = world.known(pod);
    const isClear = open.length === 0 && common !== undefined && common.length > 0;
    check(!isGated(pod) || (!isClear && world.isNarrowed(pod)), "it stays heldly for a reason");
    if (!taints || !isClear) continue;
    const tolerated = (pod.spec?.tolerations ?? []).filter(({ key }) => key === KEY);
    const isFree = tolerated.some(({ operator }) => operator === "Exists");
    const values = new Set(tolerated.map(({ value }) => value));
    check(isFree || common.every((it) => values.has(it)), "it tolerates where it runs");
  }
}
