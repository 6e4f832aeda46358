import { ApiError, type ApiFailure, defineResource, type KubeObject } from "@berth/kube";
import { type Change, createVirtualClock, type Informer, type VirtualClock } from "@berth/runtime";
import type { DocumentObject } from "../document-kind.ts";
import { type ClusterObjects, CRD_GRACE_MS, createDocumentFollower } from "../follow-cluster.ts";

const resource = defineResource<DocumentObject>({
  group: "berth.dev",
  version: "v1alpha1",
  plural: "startupgates",
  kind: "StartupGate",
  namespaced: false,
});

export type Answer = ApiFailure | "served" | "ending";

export const gateOf = (name: string, uid: string = name): DocumentObject => ({
  kind: "StartupGate",
  metadata: { name, uid, generation: 1 },
  spec: { signals: {} },
});

/** What the API server says of the CRD, and what the informer knows of its objects. */
interface Served {
  synced: boolean;
  absent: boolean;
  refusal: string | undefined;
  answer: Answer;
  /** Asked of the API server so far. */
  questions: number;
  latencyMs: number;
}

interface Given extends Served {
  readonly names: readonly string[];
  /** Of the CRD. */
  readonly ageMs: number;
  readonly whenAway: "keep" | "release";
  /** From before this process. */
  readonly hasMarks: boolean;
}

const defaults: Given = {
  names: ["a", "b"],
  ageMs: 2 * CRD_GRACE_MS,
  whenAway: "release",
  hasMarks: false,
  synced: true,
  absent: false,
  refusal: undefined,
  answer: "served",
  questions: 0,
  latencyMs: 0,
};

export interface FollowerWorld extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly world: Served & { crd: { uid: string; createdAt: number } };
  readonly objects: Map<string, DocumentObject>;
  /** What the source was told, one after the other. */
  readonly told: readonly (ClusterObjects | undefined | "unreadable")[];
  readonly messages: readonly (string | undefined)[];
  readonly follower: ReturnType<typeof createDocumentFollower>;
  tell(change: Change<DocumentObject>): Promise<void>;
  remove(...gone: readonly string[]): Promise<void>;
  add(name: string, uid?: string): Promise<void>;
  /** Names that are in force; those that went with their CRD included. */
  last(): string | undefined;
  unsettled(): ReadonlySet<string> | undefined;
}

/** Objects as an informer holds them, and an API server that says what became of their CRD. */
export async function setUp(given: Partial<Given> = {}): Promise<FollowerWorld> {
  const { names, ageMs, whenAway, hasMarks, ...state } = { ...defaults, ...given };
  const clock = createVirtualClock();
  const objects = new Map(names.map((name) => [name, gateOf(name)]));
  const handlers = new Set<(change: Change<DocumentObject>) => void>();
  const told: (ClusterObjects | undefined | "unreadable")[] = [];
  const messages: (string | undefined)[] = [];
  const world = {
    ...state,
    crd: { uid: "crd", createdAt: clock.now() - ageMs },
    list: () => objects.values(),
    whenSynced: () => new Promise<boolean>(() => {}),
    subscribe: ({ onChange }: { readonly onChange: (change: Change<DocumentObject>) => void }) => {
      handlers.add(onChange);
      return { [Symbol.dispose]: () => void handlers.delete(onChange) };
    },
  };
  const get = async (): Promise<KubeObject> => {
    world.questions += 1;
    const { answer, crd } = world;
    if (world.latencyMs > 0) await new Promise<void>((resolve) => clock.schedule(world.latencyMs, resolve));
    if (typeof answer !== "string")
      throw new ApiError(answer, { verb: "get", resource: "customresourcedefinitions" });
    const creationTimestamp = new Date(crd.createdAt).toISOString();
    const ending = answer === "ending" && { deletionTimestamp: creationTimestamp };
    return { metadata: { uid: crd.uid, creationTimestamp, ...ending } };
  };
  const stopping = new AbortController();
  const follower = createDocumentFollower(
    {
      kind: { resource, whenAway, annotations: ["example.com/read"] },
      documents: world as unknown as Informer<DocumentObject>,
      capability: "gates",
      source: {
        setCluster: (read) => told.push(read),
        settle: () => told.push("unreadable"),
      },
    },
    {
      product: { name: "berth", domain: "berth.dev" },
      client: { get } as unknown as Parameters<typeof createDocumentFollower>[1]["client"],
      traces: { whenKnown: () => Promise.resolve(true), of: () => hasMarks },
      clock,
      graceMs: CRD_GRACE_MS,
      onAway: (kind, message) => messages.push(message && `${kind}: ${message}`),
    },
  );
  const { ended } = await follower.start(stopping.signal);
  const tell = async (change: Change<DocumentObject>): Promise<void> => {
    for (const handler of handlers) handler(change);
    await clock.advance(50);
  };
  return {
    clock,
    world,
    objects,
    told,
    messages,
    follower,
    tell,
    async remove(...gone: readonly string[]): Promise<void> {
      for (const name of gone) {
        const object = objects.get(name) ?? gateOf(name);
        objects.delete(name);
        for (const handler of handlers) handler({ type: "deleted", object });
      }
      await clock.advance(50);
    },
    async add(name: string, uid = name): Promise<void> {
      const object = gateOf(name, uid);
      objects.set(name, object);
      await tell({ type: "added", object, initial: false });
    },
    last(): string | undefined {
      const read = told.at(-1);
      return typeof read === "string" ? read : read?.objects.map(({ metadata }) => metadata?.name).join();
    },
    unsettled(): ReadonlySet<string> | undefined {
      const read = told.at(-1);
      return typeof read === "string" ? undefined : read?.unsettled?.deleted;
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await ended;
    },
  };
}
