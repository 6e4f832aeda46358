/**
 * The scene of a `DeschedulePolicy`: actor, a sentinel, and the state that counts. The scene plays the controller of the
 * pods, the scheduler and the kubelet. What they do is a step of the story, at the same place in every telling.
 */
import { events, namespaces, nodes, podDisruptionBudgets, pods, serviceAccounts } from "@berth/kube";
import { deschedulePolicies, labelRules } from "@berth/placement";
import {
  aNode,
  aPod,
  type PerturbationStory,
  type PodBuilder,
  type Scene,
  type Stage,
  type Step,
} from "@berth/testcluster";
import { startBerthInStory } from "./berth.ts";
import { forbiddenOfDescheduling, isReady, ownerOf } from "./deschedule-verdict.ts";
import type { AskedWrite, StoryWrite } from "./deschedule-writes.ts";
import {
  createLabelSentinel,
  document,
  type Guides,
  merge,
  namesOf,
  noted,
  SENTINEL,
  STATUS,
} from "./scene.ts";

/** The label that the pods of the story ask for. */
const CAMERA = "example.com/camera";
const POLICY = "policy";

export interface StoryPod {
  readonly owner: string;
  readonly node: string;
  /** Once deleted it stays until the story ends it, as with a kubelet. Default: it is gone at once. */
  readonly lingers?: boolean;
}

/** What the steps of a story can do. All names are local. */
export interface DescheduleActor {
  /** With the label. */
  readonly addNode: (node: string) => Promise<void>;
  readonly label: (node: string, isThere: boolean) => Promise<void>;
  readonly annotate: (node: string) => Promise<void>;
  /** On its node, and not Ready. */
  readonly addPod: (pod: string, content: StoryPod) => Promise<void>;
  readonly ready: (pod: string) => Promise<void>;
  readonly endPod: (pod: string) => Promise<void>;
  /** The scene plays the controller of the budget for the pods of this owner as well. */
  readonly addBudget: (owner: string) => Promise<void>;
  readonly allow: (owner: string) => Promise<void>;
  readonly addPolicy: (spec: object) => Promise<void>;
  /** The pods of the owner that are not deleted. */
  readonly standing: (owner: string) => number;
  /** Whether the API server has refused to evict the pod. */
  readonly isRefused: (pod: string) => boolean;
}

export interface DeschedulePlot {
  /** What counts, by local name. */
  readonly nodes: readonly string[];
  readonly pods: readonly string[];
  /** The pods of this owner stay until this step has begun. Default: none has a budget. */
  readonly budgeted?: { readonly owner: string; readonly until: string };
  /** How many times faster than real time Berth's clock runs: it decides how long it waits for what the story does. */
  readonly pace: number;
  /** Before Berth starts. */
  prepare(actor: DescheduleActor): Promise<void>;
  /** The last one is about nothing, and Berth writes nothing. */
  steps(actor: DescheduleActor): readonly Step[];
}

export function descheduleStory(
  name: string,
  plot: DeschedulePlot,
  options: Pick<PerturbationStory, "oldestView"> = {},
): PerturbationStory {
  const guides = [nodes, labelRules, deschedulePolicies];
  return {
    name,
    ...options,
    resources: [...guides, pods],
    ownStatusOf: [labelRules, deschedulePolicies],
    unperturbed: [events, namespaces, serviceAccounts],
    guides,
    setUp: (stage) => setUpDescheduleScene(stage, plot),
  };
}

async function setUpDescheduleScene(stage: Stage, plot: DeschedulePlot): Promise<Scene> {
  const writes: StoryWrite[] = [];
  await using owned = new AsyncDisposableStack();
  const actor = createDescheduleActor(stage, { plot, writes, owned });
  const fence = await createSentinel(stage);
  await plot.prepare(actor);
  const steps = plot.steps(actor);
  const [noting, step] = noted(steps);
  const note = (life: number) => (asked: AskedWrite) => {
    const write: StoryWrite = { ...asked, name: localOf(stage, asked.name), step: step(), life };
    if (write.name !== "" && write.name !== SENTINEL) writes.push(write);
    return write;
  };
  const kept = owned.move();
  return {
    start: (connection) =>
      startBerthInStory(stage, connection, { pace: plot.pace, note: note(connection.incarnation) }),
    fence,
    steps: noting,
    state: () => stateOf(stage, plot),
    forbidden: (all) =>
      forbiddenOfDescheduling(
        all.filter(({ name }) => name !== SENTINEL),
        {
          steps: namesOf(steps),
          label: CAMERA,
          writes,
          ...(plot.budgeted && { budgeted: { ...plot.budgeted, owner: stage.nameOf(plot.budgeted.owner) } }),
        },
      ),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

function localOf(stage: Stage, name: string): string {
  const prefix = stage.nameOf("");
  return name.startsWith(prefix) ? name.slice(prefix.length) : "";
}

/** Replicas are alike: which of them goes first does not matter. */
function stateOf(stage: Stage, plot: DeschedulePlot): unknown {
  const { status } = stage.latest(deschedulePolicies, POLICY) ?? {};
  return {
    nodes: plot.nodes.map((name) => [name, stage.latest(nodes, name)?.metadata?.labels?.[CAMERA]]),
    pods: plot.pods
      .flatMap((name) => stage.latest(pods, name) ?? [])
      .map((pod) => {
        const place = [ownerOf(pod), pod.spec?.nodeName ?? ""].map((name) => localOf(stage, name));
        return [...place, isReady(pod), pod.metadata?.deletionTimestamp !== undefined].join(" ");
      })
      .toSorted(),
    lost: status?.lostPods,
    isReady: status?.conditions?.find(({ type }) => type === "Ready")?.status,
  };
}

interface Told {
  readonly plot: DeschedulePlot;
  readonly writes: readonly StoryWrite[];
  readonly owned: AsyncDisposableStack;
}

const OWNER = "example.com/owner";
/** Where the controller of budgets takes two minutes. */
const HEAL_MS = 500;

/** A pod of a ReplicaSet that there is not: nothing here asks for it. */
function replica(stage: Stage, name: string, { owner, node }: StoryPod, label: string): PodBuilder {
  return aPod(name)
    .on(stage.nameOf(node))
    .ownedBy("ReplicaSet", owner, stage.nameOf(owner))
    .labelled({ [OWNER]: stage.nameOf(owner) })
    .selecting({ [label]: "true" })
    .tolerating({ operator: "Exists" })
    .with(({ spec, ...pod }) => ({
      ...pod,
      spec: { containers: [], ...spec, terminationGracePeriodSeconds: 0 },
    }));
}

function createDescheduleActor(stage: Stage, { plot, writes, owned }: Told): DescheduleActor {
  const { client } = stage.cluster;
  const budgetOf = (owner: string) => ({ namespace: "default", name: stage.nameOf(owner) });
  const editNode = async (node: string, metadata: object): Promise<void> => {
    await stage.patch(nodes, node, merge({ metadata }));
  };
  const allows = async (owner: string, disruptionsAllowed: number): Promise<void> => {
    const counts = { currentHealthy: 1, desiredHealthy: 1 - disruptionsAllowed, expectedPods: 1 };
    const status = { ...counts, disruptionsAllowed, observedGeneration: 1 };
    await client.patch(podDisruptionBudgets, budgetOf(owner), merge({ status }), STATUS);
  };
  let heal: NodeJS.Timeout | undefined;
  owned.defer(() => clearInterval(heal));
  const standing = (owner: string): number =>
    plot.pods.filter((name) => {
      const pod = stage.latest(pods, name);
      const isOwn = pod !== undefined && ownerOf(pod) === stage.nameOf(owner);
      return isOwn && pod.metadata?.deletionTimestamp === undefined;
    }).length;
  return {
    async addNode(name) {
      const node = aNode(name).labelled({ [CAMERA]: "true" });
      await stage.create(nodes, node.build());
    },
    label: (node, isThere) => editNode(node, { labels: { [CAMERA]: isThere ? "true" : null } }),
    annotate: (node) => editNode(node, { annotations: { "example.com/note": "changed" } }),
    async addPod(name, content) {
      const { metadata, ...pod } = replica(stage, name, content, CAMERA).build();
      const held = content.lingers && { finalizers: ["example.com/held"] };
      await stage.create(pods, { ...pod, metadata: { ...metadata, ...held } });
    },
    async ready(pod) {
      const { status } = aPod(pod).ready().build();
      await stage.patch(pods, pod, merge({ status }), STATUS);
    },
    async endPod(pod) {
      await stage.patch(pods, pod, merge({ metadata: { finalizers: null } }));
    },
    async addBudget(owner) {
      const metadata = budgetOf(owner);
      const selector = { matchLabels: { [OWNER]: metadata.name } };
      await client.create(podDisruptionBudgets, { metadata, spec: { minAvailable: 1, selector } });
      owned.defer(() => client.delete(podDisruptionBudgets, metadata));
      await allows(owner, 0);
    },
    async allow(owner) {
      await allows(owner, 1);
      // An eviction that is cut off may have used up the budget without its pod: the controller of budgets heals that.
      heal = setInterval(() => {
        if (standing(owner) > 0) void allows(owner, 1).catch(() => undefined);
      }, HEAL_MS);
    },
    async addPolicy(spec) {
      await stage.create(
        deschedulePolicies,
        document(deschedulePolicies, POLICY, { ...spec, keys: [CAMERA] }),
      );
    },
    standing,
    isRefused: (pod) =>
      writes.some(({ verb, name, answer }) => verb === "evict" && name === pod && answer === "refused"),
  };
}

const SENTINEL_KEY = "sentinel.example.com/camera";
const IN_SCOPE = "sentinel.example.com/in-scope";

/**
 * A label rule answers for nodes. A policy in dry run answers for pods: its pod is never where it should be, and counts as
 * lost while it is in scope. Nothing happens to policies once Berth has started.
 */
async function createSentinel(stage: Stage): Promise<Scene["fence"]> {
  const selected = { [IN_SCOPE]: "true" };
  const policy = {
    for: "1h",
    keys: [SENTINEL_KEY],
    podSelector: { matchLabels: selected },
    dryRun: true,
  };
  await stage.create(deschedulePolicies, document(deschedulePolicies, SENTINEL, policy));
  const guides: Guides = await createLabelSentinel(stage);
  const content = { owner: SENTINEL, node: SENTINEL };
  await stage.create(pods, replica(stage, SENTINEL, content, SENTINEL_KEY).build());
  let isIn = false;
  return {
    resource: nodes,
    companions: [pods, deschedulePolicies, labelRules],
    name: SENTINEL,
    async change() {
      await guides.change();
      isIn = !isIn;
      const labels = { [IN_SCOPE]: isIn ? "true" : null };
      await stage.patch(pods, SENTINEL, merge({ metadata: { labels } }));
    },
    answered() {
      const { lostPods } = stage.latest(deschedulePolicies, SENTINEL)?.status ?? {};
      return lostPods === (isIn ? 1 : 0) && guides.answered();
    },
    guides,
  };
}
