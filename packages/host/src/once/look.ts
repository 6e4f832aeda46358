/** `plan` and `explain` of any program on this host: one look at the cluster, by the decisions of the process. */
import { isApiError, type KubeClient } from "@berth/kube";
import { type Clock, systemClock } from "@berth/runtime";
import type { Capability, Look, NamedObject } from "../capability.ts";
import { readConfigFiles, toDocuments } from "../documents/config-files.ts";
import { isServed, type KindList } from "../documents/document-kind.ts";
import { formatFault } from "../documents/fault.ts";
import { LeftOut } from "./left-out.ts";
import type { Output } from "./output.ts";
import { clusterReads, type Section } from "./run.ts";
import { styleFor } from "./style.ts";

export interface LookOptions {
  readonly client: KubeClient;
  readonly kinds: KindList;
  /** Default: the program's only one, without a name. */
  readonly installation?: string;
  /** Absolute paths of configuration files and folders. Default none. */
  readonly config?: readonly string[];
  readonly stdout: Pick<Output, "write">;
  /** For faults of documents, and for what may not be read. */
  readonly stderr: Pick<Output, "write">;
  /** Default `text`. */
  readonly format?: "text" | "json";
  readonly clock?: Clock;
  /** Default: the command is not ended early. */
  readonly signal?: AbortSignal;
}

type Looking = Pick<Capability<never>, "plan" | "explain">;

/** Prints what these capabilities would change now, and writes nothing. Rejects with `ApiError`. */
export function planOnce(capabilities: readonly Looking[], options: LookOptions): Promise<void> {
  return lookOnce(options, async (look) => {
    const sections: Section[] = [];
    for (const { plan } of capabilities) if (plan !== undefined) sections.push(await plan(look));
    return sections;
  });
}

/** Prints what these capabilities say about one object. Rejects with `ApiError`. */
export function explainOnce(
  capabilities: readonly Looking[],
  of: NamedObject,
  options: LookOptions,
): Promise<void> {
  return lookOnce(options, async (look) => {
    const sections: Section[] = [];
    for (const { explain } of capabilities) {
      const section = await explain?.(look, of);
      if (section !== undefined) sections.push(section);
    }
    return sections;
  });
}

async function lookOnce(
  options: LookOptions,
  ask: (look: Look) => Promise<readonly Section[]>,
): Promise<void> {
  const { client, kinds, config = [], stdout, stderr, clock = systemClock } = options;
  const { installation = "", signal = new AbortController().signal } = options;
  const { documents: settings, faults } = toDocuments(await readConfigFiles(config, "/"), kinds);
  for (const fault of faults) stderr.write(`${formatFault(fault)}\n`);
  const leftOut = new LeftOut();
  const ownNamespace = (): Promise<undefined> => Promise.resolve(undefined);
  const remarks = plain(stderr);
  const reads = clusterReads(client, { clock, leftOut });
  const run = { client, ...reads, clock, signal, stderr: remarks, leftOut, installation, ownNamespace };
  const sections = await ask({ run, files: { settings, hasConfig: config.length > 0 } });
  if (options.format === "json")
    stdout.write(`${JSON.stringify(Object.assign({}, ...sections.map(({ data }) => data)))}\n`);
  else
    for (const block of sections.flatMap(({ blocks }) => blocks(styleFor(plain(stdout)))))
      stdout.write(block);
  leftOut.tell(stderr);
  if (config.length === 0) await tellUnserved({ client, kinds, signal, stderr });
}

/** Where nothing has the kinds of the documents, a look finds nothing to do, and that looks like all is well. */
async function tellUnserved({
  client,
  kinds,
  signal,
  stderr,
}: Pick<LookOptions, "client" | "kinds" | "stderr"> & { readonly signal: AbortSignal }): Promise<void> {
  for (const { kind, resource } of kinds.kinds.filter(isServed)) {
    try {
      await client.list(resource, { limit: 1, signal });
    } catch (error) {
      if (!isApiError(error, "notFound")) continue;
      stderr.write(`The API server does not know the kind ${kind}: apply its CRD\n`);
    }
  }
}

function plain(output: Pick<Output, "write">): Output {
  return { write: (text) => output.write(text), isTerminal: false, columns: undefined };
}
