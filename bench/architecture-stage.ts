/** What the measurements of architecture placement share: clusters, a registry with images, Berth, a webhook that sends its patch. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bindAdmission, mergeReviews, toConfiguration } from "@berth/host";
import {
  configMaps,
  type JsonPatchOperation,
  mutatingWebhookConfigurations,
  namespaces,
  type Pod,
  pods,
} from "@berth/kube";
import {
  architectureAdmission,
  architecturePolicySpec,
  compileArchitecture,
  product,
} from "@berth/placement";
import {
  anImage,
  aPod,
  eventually,
  findFreePort,
  startTestCluster,
  type TestCluster,
  type TestRegistry,
} from "@berth/testcluster";
import { admissionDocument, startReady } from "./gate-stage.ts";
import { berthProgram, type MeasuredProcess, type Program } from "./process.ts";
import { openRawSender, type RawRequest, type RawSender } from "./raw-requests.ts";

/** Berth's own: for its certificates, and for what it knows of images. */
const NAMESPACE = "berth-system";
/** Where the measured pods are. */
export const NAMESPACE_OF_PODS = "bench-architecture";
/**
 * Creations in flight. Fewer than the 25 idle connections that client-go keeps to a host: the API server would make a new
 * one for each call beyond, with a handshake that has nothing to do with what is measured.
 */
const IN_FLIGHT = 16;

export type Mode = "Affinity" | "Both";

/** Images in the registry, and what reading each of them once takes. */
export interface ImageSet {
  /** `127.0.0.1:20001/set/app-3:1` */
  readonly references: readonly string[];
  /** Those without an index: a registry is asked for their config as well. */
  readonly single: number;
}

export type ReadyProcess = MeasuredProcess & { readonly metricsUrl: string };

export interface ArchitectureStage extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly registry: TestRegistry;
  readonly raw: RawSender;
  /** New images: every fifth for amd64 alone and without an index, the others for amd64 and arm64. */
  push(set: string, count: number): Promise<ImageSet>;
  /** Berth with one policy for all pods. Resolves once the API server asks it about pods. */
  startBerth(mode: Mode): Promise<ReadyProcess>;
  /** A server that answers all with this patch, asked as Berth would be. Resolves once the API server asks it about pods. */
  startPatching(mode: Mode, patch: readonly JsonPatchOperation[]): Promise<ReadyProcess>;
  /** Nobody is asked about pods any more. To be called once what was asked has ended. */
  askNobody(): Promise<void>;
  /** Berth knows no image when it is started next. */
  forgetImages(): Promise<void>;
  /** Deletes the measured pods. */
  clear(): Promise<void>;
}

export interface StageOptions {
  /** In the process of the benchmark: what is asked of it is counted there. */
  readonly registry: TestRegistry;
  /** With the real scheduler; nodes are the caller's. */
  readonly schedules?: boolean;
  readonly onProgress: (text: string) => void;
}

export async function startArchitectureStage(options: StageOptions): Promise<ArchitectureStage> {
  const { registry, schedules = false, onProgress } = options;
  await using owned = new AsyncDisposableStack();
  onProgress(schedules ? "starting a cluster with a scheduler" : "starting a cluster");
  const cluster = owned.use(await startTestCluster({ audit: true, with: schedules ? ["scheduler"] : [] }));
  const { client } = cluster;
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-architecture-"));
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "kubeconfig"), cluster.kubeconfig(), { mode: 0o600 });
  const target = { url: cluster.url, ca: cluster.ca, token: cluster.adminToken };
  const raw = owned.use(openRawSender(target, { connections: IN_FLIGHT, userAgent: "bench-architecture" }));
  for (const name of [NAMESPACE, NAMESPACE_OF_PODS])
    await client.create(namespaces, { apiVersion: "v1", kind: "Namespace", metadata: { name } });
  const disposal = owned.move();
  return {
    cluster,
    registry,
    raw,
    push: (set, count) => push(registry, set, count),
    startBerth: async (mode) => startAsked(raw, await berth(folder, mode, registry)),
    async startPatching(mode, patch) {
      const address = `127.0.0.1:${await findFreePort()}`;
      const program = await patching(folder, cluster, address, patch);
      await client.create(mutatingWebhookConfigurations, configurationOf(mode, address, cluster.ca));
      return startAsked(raw, program);
    },
    async askNobody() {
      await client.deleteCollection(mutatingWebhookConfigurations, {});
      // Whoever was asked has ended, and nothing passes while the API server wants to ask.
      await eventually(() => raw.send(PROBE));
    },
    async forgetImages() {
      await client.deleteCollection(configMaps, { namespace: NAMESPACE }, { gracePeriodSeconds: 0 });
    },
    async clear() {
      await client.deleteCollection(pods, { namespace: NAMESPACE_OF_PODS }, { gracePeriodSeconds: 0 });
      await eventually(async () => {
        const { items } = await client.list(pods, { namespace: NAMESPACE_OF_PODS, limit: 1 });
        if (items.length > 0) throw new Error("the pods are not gone");
      });
    },
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

async function push(registry: TestRegistry, set: string, count: number): Promise<ImageSet> {
  const references: string[] = [];
  let single = 0;
  for (let index = 0; index < count; index++) {
    const isSingle = index % 5 === 4;
    const platforms = isSingle ? ["linux/amd64"] : ["linux/amd64", "linux/arm64"];
    const image = anImage(`${set}/app-${index}:1`).platforms(...platforms);
    references.push((await registry.push(image)).reference);
    if (isSingle) single++;
  }
  return { references, single };
}

function policySpec(mode: Mode): object {
  return { mode };
}

async function berth(folder: string, mode: Mode, registry: TestRegistry): Promise<Program> {
  const address = `127.0.0.1:${await findFreePort()}`;
  const admission = {
    mode: "Webhook",
    bindAddress: address,
    url: `https://${address}`,
    podFailurePolicy: "Fail",
  };
  const policy = {
    apiVersion: "berth.dev/v1alpha1",
    kind: "ArchitecturePolicy",
    metadata: { name: "bench" },
    spec: policySpec(mode),
  };
  const registries = {
    apiVersion: "berth.dev/v1alpha1",
    kind: "ImageRegistries",
    metadata: { name: "bench" },
    spec: { registries: [{ registry: registry.host }] },
  };
  const file = join(folder, "config.yaml");
  // JSON is YAML.
  await writeFile(
    file,
    [policy, registries, admissionDocument(admission)].map((one) => JSON.stringify(one)).join("\n---\n"),
  );
  const any = "127.0.0.1:0";
  const bind = ["--metrics-bind-address", any, "--health-probe-bind-address", any];
  return berthProgram(["--kubeconfig", join(folder, "kubeconfig"), "--config", file, ...bind]);
}

async function patching(
  folder: string,
  cluster: TestCluster,
  address: string,
  patch: readonly JsonPatchOperation[],
): Promise<Program> {
  const { certificate, key } = await cluster.authority.issueServing(["127.0.0.1"]);
  const [certificateFile, keyFile] = [join(folder, "tls.crt"), join(folder, "tls.key")];
  await writeFile(certificateFile, certificate);
  await writeFile(keyFile, key, { mode: 0o600 });
  const patchFile = join(folder, "patch.json");
  await writeFile(patchFile, JSON.stringify(patch));
  const program = join(import.meta.dirname, "children/patch-webhook.ts");
  return {
    name: "the webhook that sends a patch",
    command: process.execPath,
    args: [...process.execArgv, program, address, certificateFile, keyFile, "/mutate-pod", patchFile],
    userAgent: "none",
  };
}

/** The one that Berth keeps, with another address: the API server asks about the same pods. */
function configurationOf(mode: Mode, address: string, ca: string): ReturnType<typeof toConfiguration> {
  const spec = architecturePolicySpec.parse(policySpec(mode));
  const inForce = compileArchitecture({
    sources: [{ source: "config", documents: [{ name: "bench", annotations: {}, spec }] }],
  });
  // Nobody is asked here, so that answers need nothing.
  const rules = bindAdmission(
    architectureAdmission({
      architectureOf: () => undefined,
      namespaceLabels: () => undefined,
      ownNamespace: NAMESPACE,
      observations: { look: ({ image }) => ({ state: "unknown", name: image }) },
      now: () => 0,
      onPod: () => undefined,
    }),
    () => inForce,
  );
  const server = { failurePolicy: "Ignore", podFailurePolicy: "Fail" } as const;
  const env = { product, installation: "berth", namespace: NAMESPACE, spec: server };
  const reviews = mergeReviews([rules], env).get(rules.name) ?? [];
  return toConfiguration(rules, reviews, { ...env, client: { url: `https://${address}` }, ca });
}

async function startAsked(raw: RawSender, program: Program): Promise<ReadyProcess> {
  await using owned = new AsyncDisposableStack();
  const started = owned.use(await startReady(program));
  await eventually(
    async () => {
      started.ended.throwIfAborted();
      await raw.send(PROBE);
      const { requests } = await handlingOf(started);
      if (requests === 0) throw new Error(`${started.name} is not asked about pods\n${started.log}`);
    },
    { timeoutMs: 30_000 },
  );
  owned.move();
  return started;
}

/** Creation of a pod with these images. */
export function creation(name: string, images: readonly string[]): RawRequest {
  return { method: "POST", path: `/api/v1/namespaces/${NAMESPACE_OF_PODS}/pods`, body: podOf(name, images) };
}

/** Asked about like any other, and not stored; what is not known of its images is not looked up. */
export function dryRun({ path, ...request }: RawRequest): RawRequest {
  return { ...request, path: `${path}?dryRun=All` };
}

const PROBE: RawRequest = dryRun(creation("probe", ["registry.test/app:1"]));

function podOf(name: string, images: readonly string[]): Pod {
  const [first = "", ...others] = images;
  const built = aPod(name).in(NAMESPACE_OF_PODS).labelled({ app: "bench" }).image(first);
  return others.reduce((pod, image, index) => pod.container(`side-${index}`, image), built).build();
}

/** How long the process took to answer the API server about pods: its own histogram. */
export interface Handling {
  readonly requests: number;
  /** Requests that took no longer, by the bound in ms; the last bound is infinite. */
  readonly buckets: readonly (readonly [number, number])[];
}

const DURATION = "berth_admission_request_duration_seconds_bucket";

export async function handlingOf({ metricsUrl }: Pick<ReadyProcess, "metricsUrl">): Promise<Handling> {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text();
  const buckets = text.split("\n").flatMap((line) => {
    if (!line.startsWith(DURATION) || !line.includes(`path="/mutate-pod"`)) return [];
    const bound = /le="([^"]+)"/.exec(line)?.[1] ?? "";
    const at = bound === "+Inf" ? Number.POSITIVE_INFINITY : Number(bound) * 1000;
    return [[at, Number(line.slice(line.lastIndexOf(" ") + 1))] as const];
  });
  return { requests: buckets.at(-1)?.[1] ?? 0, buckets };
}
