/** A kubeconfig that another program renews while this one runs, such as one in a mounted Secret. */
import { readFile } from "node:fs/promises";
import { performance } from "node:perf_hooks";
import { type Credential, replaceableCredential } from "./credential.ts";
import { type KubeconfigOptions, loadKubeconfig, type ResolvedConfig } from "./kubeconfig.ts";

/** As often as a token file, ms. */
const TTL_MS = 60_000;

/**
 * As `loadKubeconfig`, but the credential and the authority follow the file: it is read again every `ttlMs` (default a
 * minute), and at once after a 401. A file that cannot be used changes nothing, nor does one that differs in more, such as
 * the server: a credential never goes to another server than it was given for.
 *
 * @throws KubeconfigError when the file cannot be read or does not describe a usable cluster and user.
 */
export async function followKubeconfig(
  file: string,
  options: KubeconfigOptions,
  ttlMs: number = TTL_MS,
): Promise<ResolvedConfig> {
  let text = await textOf(file);
  const first = await loadKubeconfig([file], options);
  const current = replaceableCredential(first.connect.credential, first.connect.ca);
  const read = async (): Promise<void> => {
    const now = await textOf(file);
    // An exec plugin goes on with what it has.
    if (now === text) return;
    const { connect } = await loadKubeconfig([file], options);
    if (placeOf(connect) === placeOf(first.connect)) current.replace(connect.credential, connect.ca);
    text = now;
  };
  let dueAt = performance.now() + ttlMs;
  let reading: Promise<void> | undefined;
  const look = async (): Promise<void> => {
    // The next look tries again.
    await read().catch(() => undefined);
    dueAt = performance.now() + ttlMs;
    reading = undefined;
  };
  const credential: Credential = {
    async material(signal) {
      if (performance.now() >= dueAt) await (reading ??= look());
      return current.material(signal);
    },
    reject(material) {
      dueAt = Number.NEGATIVE_INFINITY;
      current.reject(material);
    },
  };
  return { ...first, connect: { ...first.connect, credential } };
}

function textOf(file: string): Promise<string | undefined> {
  return readFile(file, "utf8").catch(() => undefined);
}

/** All but what may be renewed. */
function placeOf(connect: ResolvedConfig["connect"]): string {
  return JSON.stringify({ ...connect, credential: undefined, ca: undefined });
}
