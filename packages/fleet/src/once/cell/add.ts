/** Makes a Cell of a cluster, with the Secret of its connection. */
import { type OneShotRun, unlessForbidden } from "@berth/host";
import {
  connect,
  formatKubeconfig,
  isApiError,
  type KubeClient,
  KubeconfigError,
  namespaces,
  type ParsedKubeconfig,
  parseKubeconfig,
  type Secret,
  secrets,
} from "@berth/kube";
import { readIdentity, sleep } from "@berth/runtime";
import { type Cell, cells } from "../../api/cell.ts";
import { labels } from "../../api/keys.ts";
import { instances, workloadDeployments } from "../../api/workload.ts";
import { type CandidateFault, type CellsThere, candidateFaults } from "./candidate.ts";
import { missingKinds, missingRights, rightsInCell, rightText } from "./rights.ts";

/** A cluster to add. */
export interface CellRequest {
  readonly name: string;
  readonly city: string;
  readonly kubeconfig: ParsedKubeconfig;
  readonly userAgent: string;
  /** The credential that this command uses for Berth's cluster. */
  readonly ownFingerprint: string;
  /** Of Berth, in its own cluster. */
  readonly namespace: string;
  /** Of Berth in the cell. Default: as in its own cluster, or as the Cell says already. */
  readonly cellNamespace?: string | undefined;
}

export type Written = "created" | "replaced" | "unchanged";

/** What was done. */
export interface CellAdded {
  readonly server: string;
  /** `v1.36.3` */
  readonly version: string;
  readonly uid: string;
  /** `berth-system/berth-cell-dfw-01` */
  readonly secret: string;
  readonly wrote: { readonly secret: Written; readonly cell: Written };
}

/** The identity is the uid of this namespace. */
const IDENTITY = "kube-system";
const TIMEOUT_MS = 10_000;

/** Writes nothing when there is a fault. @throws ApiError when one of both clusters does not answer. */
export async function addCell(
  request: CellRequest,
  run: OneShotRun,
): Promise<{ readonly faults: readonly CandidateFault[] } | { readonly added: CellAdded }> {
  const { name, city, kubeconfig, userAgent, namespace, cellNamespace } = request;
  const { signal } = run;
  await using client = connect({ ...kubeconfig.connect, userAgent, cluster: name });
  const there = await readCells(request, run);
  const present = there.cells.find(({ metadata }) => metadata?.name === name);
  const home = cellNamespace ?? present?.spec?.namespace;
  const seen = await look(client, home ?? namespace, signal);
  const candidate = { name, city, fingerprint: kubeconfig.fingerprint, ...seen };
  const faults = candidateFaults(candidate, there);
  if (faults.length > 0) return { faults };
  const secret = present?.spec?.secretRef.name ?? `berth-cell-${name}`;
  const wroteSecret = await writeSecret({ ...request, secret }, run);
  const cell: Cell = {
    metadata: { name },
    spec: { city, secretRef: { name: secret }, uid: seen.uid, ...(home && { namespace: home }) },
  };
  const wroteCell = await writeCell(cell, present, run);
  return {
    added: {
      server: client.server,
      version: seen.version,
      uid: seen.uid,
      secret: `${namespace}/${secret}`,
      wrote: { secret: wroteSecret, cell: wroteCell },
    },
  };
}

/** Of a Cell that is there, only the namespace can differ. */
async function writeCell(
  wanted: Cell,
  present: Cell | undefined,
  { client, signal }: OneShotRun,
): Promise<Written> {
  if (present === undefined) {
    await client.create(cells, wanted, { signal });
    return "created";
  }
  const { namespace } = wanted.spec ?? {};
  if (present.spec?.namespace === namespace) return "unchanged";
  const { name = "", uid, resourceVersion } = present.metadata ?? {};
  const body = { metadata: { uid, resourceVersion }, spec: { namespace } };
  await client.patch(cells, { name }, { type: "merge", body }, { signal });
  return "replaced";
}

/** Without the right to read its namespace there is no identity, and the missing right says why. */
async function look(client: KubeClient, namespace: string, signal: AbortSignal) {
  const { gitVersion = "" } = JSON.parse(
    await client.read("/version", { signal, timeoutMs: TIMEOUT_MS }),
  ) as {
    readonly gitVersion?: string;
  };
  const missing = await missingRights(client, rightsInCell(namespace), signal);
  const uid = await readIdentity(client, IDENTITY, { signal, timeoutMs: TIMEOUT_MS }).catch(
    (error: unknown) => {
      if (isApiError(error, "forbidden") && missing.length > 0) return "";
      throw error;
    },
  );
  return {
    version: gitVersion,
    uid,
    missingRights: missing.map(rightText),
    missingKinds: await missingKinds(client, [workloadDeployments, instances], signal),
  };
}

async function readCells({ ownFingerprint, namespace }: CellRequest, run: OneShotRun): Promise<CellsThere> {
  const { client, signal } = run;
  const { items } = await client.list(cells, { signal });
  const fingerprints = new Map<string, string>();
  for (const { metadata, spec } of items) {
    const of = { namespace, name: spec?.secretRef.name ?? "" };
    const consequence = "credentials of other Cells are not compared";
    const secret = await unlessForbidden("Secrets", run, () => getSecret(of, run), consequence);
    const fingerprint = secret && (await fingerprintIn(secret));
    if (fingerprint !== undefined) fingerprints.set(metadata?.name ?? "", fingerprint);
  }
  const uid = await readIdentity(client, IDENTITY, { signal, timeoutMs: TIMEOUT_MS });
  return { cells: items, fingerprints, own: { uid, fingerprint: ownFingerprint } };
}

async function getSecret(
  of: { readonly namespace: string; readonly name: string },
  { client, signal }: OneShotRun,
): Promise<Secret | undefined> {
  try {
    return await client.get(secrets, of, { signal });
  } catch (error) {
    if (isApiError(error, "notFound")) return undefined;
    throw error;
  }
}

const KEY = "kubeconfig";

/** `undefined`: no connection is in it. */
async function fingerprintIn({ data, metadata }: Secret): Promise<string | undefined> {
  const text = Buffer.from(data?.[KEY] ?? "", "base64").toString("utf8");
  try {
    return (await parseKubeconfig(text, { origin: `Secret ${metadata?.name}` })).fingerprint;
  } catch (error) {
    if (error instanceof KubeconfigError) return undefined;
    throw error;
  }
}

/** Made before the Cell: a running Berth connects as soon as it sees that. */
async function writeSecret(
  { name, kubeconfig, namespace, secret }: CellRequest & { readonly secret: string },
  run: OneShotRun,
): Promise<Written> {
  const { client, signal } = run;
  const text = await formatKubeconfig(kubeconfig);
  const data = { [KEY]: Buffer.from(text).toString("base64") };
  const of = { namespace, name: secret };
  const present = await getSecret(of, run);
  if (present === undefined) {
    await makeNamespace(namespace, run);
    const metadata = { name: secret, namespace, labels: { [labels.cell]: name } };
    await client.create(secrets, { metadata, type: "Opaque", data }, { signal });
    return "created";
  }
  if (present.data?.[KEY] === data[KEY]) return "unchanged";
  const { uid, resourceVersion } = present.metadata ?? {};
  const body = { metadata: { uid, resourceVersion }, data };
  await client.patch(secrets, of, { type: "merge", body }, { signal });
  return "replaced";
}

async function makeNamespace(name: string, run: OneShotRun): Promise<void> {
  const { client, signal } = run;
  if ((await run.ownNamespace()) !== undefined) return;
  try {
    await client.create(namespaces, { metadata: { name } }, { signal });
  } catch (error) {
    if (!isApiError(error, "alreadyExists")) throw error;
  }
}

/** How often it looks whether a running Berth has seen the Cell. Milliseconds. */
const LOOK_MS = 200;

/** A running Berth has said whether it reaches the Cell: from then on Workloads may name its city. */
export function isSeen({ status }: Cell): boolean {
  return status?.conditions?.some(({ type }) => type === "Reachable") === true;
}

/**
 * Waits for what a running Berth says of a Cell.
 * @returns the Cell as it is at the end. Without such a Berth, after `timeoutMs`.
 */
export async function whenCell(
  name: string,
  isSo: (cell: Cell) => boolean,
  { client, clock, signal }: OneShotRun,
  timeoutMs: number,
): Promise<Cell> {
  const end = clock.monotonic() + timeoutMs;
  for (;;) {
    const cell = await client.get(cells, { name }, { signal });
    if (isSo(cell) || clock.monotonic() >= end || !(await sleep(clock, LOOK_MS, signal))) return cell;
  }
}
