import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  bearerToken,
  type ConnectOptions,
  type Credential,
  connect,
  type KubeClient,
  staticCredential,
} from "@berth/kube";
import type { ComponentName } from "./assets.ts";
import { type AuditLog, openAuditLog } from "./audit-log.ts";
import type { CertificateAuthority, KeyPair } from "./certificates.ts";
import { FILES, type OptionalComponent } from "./components.ts";
import { type ControlPlane, connectionTo, type StartProgress, startControlPlane } from "./control-plane.ts";
import { compact, readStore, restoreStore, type StoreContent } from "./etcd.ts";
import { eventually } from "./eventually.ts";
import { renderKubeconfig, type UserProof } from "./kubeconfig.ts";
import { createNodes } from "./nodes.ts";
import { untilPoliciesAreRead } from "./policy-canary.ts";
import { removeAfterUs } from "./process.ts";
import { callServer } from "./server-call.ts";

/** What runs, and for how long to wait for it. */
export interface TestClusterOptions {
  /** What runs beside etcd and kube-apiserver. Default nothing. */
  readonly with?: readonly OptionalComponent[];
  /**
   * That many nodes, `node-1` and up, Ready when this resolves. kwok keeps them so when it runs; else they only claim it,
   * and the controller manager would find them silent after 40 s. Default 0.
   */
  readonly nodes?: number;
  /** Folder for data and logs, kept afterwards; data of an earlier cluster there is used again. Default: a temporary one. */
  readonly dir?: string;
  /** Port of the API server on 127.0.0.1. Default: a free one. */
  readonly port?: number;
  /** Write an audit log, for `cluster.audit`. Default false: each request waits for its line to be written. */
  readonly audit?: boolean;
  /**
   * Kubernetes' generic API server in place of kube-apiserver: namespaces, Secrets, Leases and CRDs, and no pods and nodes.
   * It takes two thirds of the memory. Only the bundled control plane has it. Default false.
   */
  readonly small?: boolean;
  /** Users with a bearer token, for those who reach the server through a proxy that ends TLS. */
  readonly users?: readonly { readonly name: string; readonly groups?: readonly string[] }[];
  /** More flags per program, such as `{ "kube-apiserver": ["--watch-cache=false"] }`. */
  readonly flags?: Readonly<Partial<Record<ComponentName, readonly string[]>>>;
  /** For the API server to become ready, not counting a first build. Milliseconds, default 60,000. */
  readonly timeoutMs?: number;
  /** Environment to find the programs in (see `assets.ts`). Default that of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Told while the control plane is built and started. */
  readonly onProgress?: (progress: StartProgress) => void;
  readonly signal?: AbortSignal;
}

/** A user that the API server knows, with its credential. */
export type TestUser = { readonly name: string; readonly groups: readonly string[] } & UserProof;

/** Whom a kubeconfig is for, and where it leads. */
export interface KubeconfigChoice {
  /** Default: the admin. */
  readonly user?: TestUser;
  /** Where clients connect instead, for example a proxy. Default: the cluster's own URL. */
  readonly server?: string;
}

/** Whom to connect as, and how; the rest as for `connect` of `@berth/kube`. */
export interface ClientChoice extends Partial<Omit<ConnectOptions, "credential">> {
  readonly user?: TestUser;
}

/** The key of a CustomResourceDefinition. */
const CRD_KEY = /^\/registry\/apiextensions\.k8s\.io\/customresourcedefinitions\/[^.]+\.(?<group>.+)$/;

interface GroupList {
  readonly groups: readonly { readonly name: string }[];
}

/** What a cluster had stored at one moment. */
export interface ClusterSnapshot {
  readonly content: StoreContent;
}

/**
 * A real Kubernetes control plane, owned by its caller: `await using` stops it, and it dies with this
 * process however that ends. It does not keep the process running by itself.
 */
export class TestCluster implements AsyncDisposable {
  /** `https://127.0.0.1:port`. */
  readonly url: string;
  /** PEM of the authority that signed the API server's certificate. */
  readonly ca: string;
  /** Bearer token of user `admin` in `system:masters`. */
  readonly adminToken: string;
  /** Connected as the admin; user agent and field manager are `berth-testcluster`, unlike those of what is tested. */
  readonly client: KubeClient;
  /** Data, logs (`<component>.log`) and credentials. */
  readonly folder: string;
  /** Issues certificates that clients of this cluster trust: for proxies and webhooks. */
  readonly authority: CertificateAuthority;
  readonly #plane: ControlPlane;
  readonly #audit: AuditLog | undefined;
  readonly #owned: AsyncDisposableStack;

  /** Use `startTestCluster`. */
  constructor(plane: ControlPlane, client: KubeClient, owned: AsyncDisposableStack) {
    this.#plane = plane;
    this.url = plane.url;
    this.ca = plane.credentials.authority.certificate;
    this.adminToken = plane.credentials.admin.token;
    this.folder = plane.layout.folder;
    this.authority = plane.credentials.authority;
    this.client = client;
    this.#plane = plane;
    this.#owned = owned;
    const { url, ca, adminToken: token } = this;
    this.#audit = plane.layout.audit
      ? openAuditLog({
          file: path.join(this.folder, FILES.auditLog),
          get: (pathAndQuery) => callServer({ url: `${url}${pathAndQuery}`, ca, token }),
        })
      : undefined;
  }

  /** The user `admin`, who may do everything. */
  get admin(): TestUser {
    return this.#plane.credentials.admin;
  }

  /** Counts the requests the API server answered. Throws unless the cluster was started with `audit`. */
  get audit(): AuditLog {
    if (this.#audit === undefined)
      throw new Error("this cluster writes no audit log: start it with { audit: true }");
    return this.#audit;
  }

  /**
   * A user without any rights until RBAC gives some. One named in the option `users` has a bearer token; any other
   * gets a client certificate, which a proxy that ends TLS cannot pass on.
   */
  async user(name: string, groups: readonly string[] = []): Promise<TestUser> {
    const known = this.#plane.credentials.users.get(name);
    if (known !== undefined) return known;
    const clientCertificate: KeyPair = await this.authority.issueClient(name, groups);
    return { name, groups, clientCertificate };
  }

  /**
   * A client of its own, which the caller closes: as another user, or through a proxy. Default: as the admin. One with a
   * `userAgent` of its own is a field manager of its own too.
   */
  connect({ user = this.admin, ...options }: ClientChoice = {}): KubeClient {
    return connect({ ...connectionTo(this.#plane), credential: credentialOf(user), ...options });
  }

  /** Text of a kubeconfig with everything inline. */
  kubeconfig({ user = this.admin, server = this.url }: KubeconfigChoice = {}): string {
    return renderKubeconfig({ server, ca: this.ca, user, name: "berth" });
  }

  /** Process id of a component, for tests that look at processes. `undefined` while it does not run. */
  pidOf(name: ComponentName): number | undefined {
    const component = this.#plane.components.get(name);
    return component?.running ? component.pid : undefined;
  }

  /** Default SIGTERM, an orderly end (API server: one to three seconds); SIGKILL is a crash. Resolves when it is gone. */
  async stopComponent(name: ComponentName, signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    const component = this.#plane.components.get(name);
    if (component === undefined) throw new Error(`${name} is not part of this cluster`);
    await component.stop(signal);
  }

  /** Starts it again on the same port with the same data; resolves when it is ready. Nothing happens when it runs. */
  async startComponent(name: ComponentName): Promise<void> {
    if (this.pidOf(name) === undefined) await this.#plane.start(name);
  }

  /**
   * Throws away etcd's history. A running API server still answers from its own memory: recent watch events, and
   * snapshots for continue tokens (`ListFromCacheSnapshot`). To make old resourceVersions and continue tokens expire
   * (410), restart the API server afterwards, which empties that memory.
   *
   * @returns the present revision, comparable with resourceVersions.
   */
  compact(): Promise<string> {
    return compact(this.#plane.layout.ports.etcdClient);
  }

  /** All objects as they are stored now, for `restore`. */
  async snapshot(): Promise<ClusterSnapshot> {
    return { content: await readStore(this.#plane.layout.ports.etcdClient) };
  }

  /**
   * Makes the cluster what it was, in some milliseconds: objects made since the snapshot go, whatever finalizers they
   * have, and objects changed or deleted since come back. Watches tell of it; the history stays. Resolves when the
   * server no longer serves the custom kinds that went, nor goes by admission policies that went. Components that were
   * stopped are started first.
   *
   * @throws NotEventuallyError with the first keys when objects are still being made, by a program that was not stopped.
   */
  async restore({ content }: ClusterSnapshot): Promise<void> {
    for (const name of this.#plane.components.keys()) await this.startComponent(name);
    const gone = new Set<string>();
    const restoreAll = (): Promise<void> =>
      eventually(
        async () => {
          const added = await restoreStore(this.#plane.layout.ports.etcdClient, content);
          for (const key of added) gone.add(key);
          if (added.length > 0)
            throw new Error(`objects are still being made, such as ${added.slice(0, 5).join(", ")}`);
        },
        { everyMs: 10 },
      );
    await restoreAll();
    const isGone = (resource: string): boolean =>
      [...gone].some((key) => key.startsWith(`/registry/${resource}/`));
    const policies = {
      mutating: isGone("mutatingadmissionpolicies"),
      validating: isGone("validatingadmissionpolicies"),
    };
    if (policies.mutating || policies.validating) {
      await untilPoliciesAreRead(this.client, policies);
      await restoreAll();
    }
    const goneGroups = new Set([...gone].flatMap((key) => CRD_KEY.exec(key)?.groups?.["group"] ?? []));
    if (goneGroups.size > 0) await this.#untilNotServed(goneGroups);
  }

  async #untilNotServed(gone: ReadonlySet<string>): Promise<void> {
    await eventually(
      async () => {
        const { groups } = JSON.parse(await this.client.read("/apis")) as GroupList;
        const served = groups.find(({ name }) => gone.has(name));
        if (served !== undefined) throw new Error(`${served.name} is still served`);
      },
      { everyMs: 10 },
    );
  }

  /** Kills every process and removes the folder if it was a temporary one. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#owned.disposeAsync();
  }
}

/**
 * Starts etcd and kube-apiserver, and what else is asked for, on 127.0.0.1. Resolves when the API server is ready,
 * in about 4 s on two cores; the very first start on a machine may build the control plane, which takes minutes.
 *
 * @throws MissingAssetsError when there is no control plane and no Go; ComponentFailedError with the last lines of
 * the log when a component ends or does not become ready. Nothing is left behind then.
 */
export async function startTestCluster(options: TestClusterOptions = {}): Promise<TestCluster> {
  await using owned = new AsyncDisposableStack();
  const folder = options.dir ?? (await temporaryFolder(owned));
  const plane = owned.use(
    await startControlPlane({
      folder: path.resolve(folder),
      with: new Set(options.with),
      audit: options.audit ?? false,
      small: options.small ?? false,
      users: (options.users ?? []).map(({ name, groups = [] }) => ({ name, groups })),
      flags: options.flags ?? {},
      env: options.env ?? process.env,
      timeoutMs: options.timeoutMs ?? 60_000,
      ...(options.port === undefined ? {} : { port: options.port }),
      ...(options.onProgress ? { onProgress: options.onProgress } : {}),
      ...(options.signal ? { signal: options.signal } : {}),
    }),
  );
  const client = owned.use(
    connect({ ...connectionTo(plane), credential: credentialOf(plane.credentials.admin) }),
  );
  await createNodes(client, options.nodes ?? 0, {
    fake: plane.layout.with.has("kwok"),
    ...(options.signal ? { signal: options.signal } : {}),
  });
  return new TestCluster(plane, client, owned.move());
}

function credentialOf(user: TestUser): Credential {
  if ("token" in user) return bearerToken(user.token);
  const { certificate: cert, key } = user.clientCertificate;
  return staticCredential({ certificate: { cert, key } });
}

async function temporaryFolder(owned: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "berth-cluster-"));
  owned.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  // Runs when we cannot: this process was killed.
  owned.use(await removeAfterUs(folder));
  return folder;
}
