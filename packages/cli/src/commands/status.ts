import {
  baseName,
  type CustomKind,
  counted,
  eachObject,
  type LeftOut,
  pluralOf,
  type Remarked,
  stateOf,
  styleFor,
  unlessForbidden,
} from "@berth/host";
import { deployments, isApiError, leases, type Node, nodes, type Resource } from "@berth/kube";
import { berthAs, ownedMarks, recordOf } from "@berth/placement";
import type { CommandDeps } from "../command-deps.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { foreignKinds, servedKinds } from "../kinds.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { formatStatus, type KindLine, type RemarkLine } from "../output/status.ts";
import { openSession, type Session } from "../session.ts";

export interface StatusOptions extends ConnectionOptions {
  readonly installation: string;
  readonly namespace?: string;
  readonly output?: DataFormat;
}

/** How many nodes it asks since when they are held. */
const MAX_NODES = 20;

/**
 * Shows how Berth is, from what it has written itself: statuses, its Lease and its Deployment. It lists neither nodes nor
 * pods, so a large cluster is as fast as a small one.
 */
export async function status(options: StatusOptions, deps: CommandDeps): Promise<ExitCode> {
  await using session = await openSession(options, deps);
  const kinds = [...servedKinds, ...foreignKinds().filter(({ shown }) => shown !== undefined)];
  const [program, ...read] = await Promise.all([
    readProgram(session),
    ...kinds.map((kind) => readKind(kind, session)),
  ]);
  // Most clusters do not have the kinds that Berth serves on request.
  const isOptional = (at: number): boolean => at >= servedKinds.length;
  const documents = read.flatMap(({ line }, at) => (line.isRead || !isOptional(at) ? [line] : []));
  const remarks = [
    ...program,
    ...(await withSince(
      read.flatMap((it) => it.remarks),
      session,
    )),
  ];
  const isNoneRead = documents.every(({ isRead }) => !isRead);
  if (isNoneRead && !session.leftOut.isEmpty) throw unreadable(session.leftOut);
  if (isNoneRead && program.length === 0)
    remarks.push({ object: "berth", text: "is not installed on this cluster", needsPerson: true });
  const needsPerson = remarks.some((it) => it.needsPerson);
  const names = remarks.map(({ object }) => object);
  if (options.output) printData(deps.stdout, { needsPerson, documents, remarks }, options.output, names);
  else
    deps.stdout.write(formatStatus({ documents, remarks, now: session.clock.now() }, styleFor(deps.stdout)));
  if (needsPerson) return exitCodes.needsPerson;
  return session.leftOut.isEmpty ? exitCodes.done : exitCodes.cluster;
}

function unreadable(leftOut: LeftOut): CommandError {
  return new CommandError(
    `no document of Berth may be read; needed: ${leftOut.take().join(", ")}`,
    exitCodes.cluster,
  );
}

/** The Deployment and the leader. None where Berth runs outside the cluster and alone. */
async function readProgram(session: Session): Promise<readonly RemarkLine[]> {
  const { clock, installation } = session;
  const { name: namespace } = await session.stateNamespace();
  const of = { namespace, name: baseName(berthAs(installation)) };
  const [deployment, lease] = await Promise.all([
    readIfThere(deployments, of, session),
    readIfThere(leases, of, session),
  ]);
  const lines: RemarkLine[] = [];
  if (deployment !== undefined) {
    const { spec, status: { readyReplicas: ready = 0 } = {} } = deployment;
    const image = spec?.template.spec?.containers[0]?.image ?? "";
    const text = `${ready} of ${counted(spec?.replicas ?? 1, "replica")} ready, image ${image}`;
    lines.push({ object: `deployment/${of.name}`, text, needsPerson: ready === 0 });
  }
  const { holderIdentity: leader = "", renewTime, leaseDurationSeconds = 0 } = lease?.spec ?? {};
  if (lease === undefined) return lines;
  const age = clock.now() - Date.parse(renewTime ?? "");
  const isLed = leader !== "" && age < leaseDurationSeconds * 1000;
  const text = isLed ? `leader ${leader}` : "no replica leads: what follows is as it was left";
  return [
    ...lines,
    { object: `lease/${of.name}`, text, needsPerson: !isLed, ...(renewTime && { since: renewTime }) },
  ];
}

async function readIfThere<T extends object>(
  resource: Resource<T>,
  of: { readonly namespace: string; readonly name: string },
  session: Session,
): Promise<T | undefined> {
  const { client, signal } = session;
  try {
    return await unlessForbidden(pluralOf(resource), session, () => client.get(resource, of, { signal }));
  } catch (error) {
    if (isApiError(error, "notFound")) return undefined;
    throw error;
  }
}

interface ReadKind {
  readonly line: KindLine;
  readonly remarks: readonly RemarkLine[];
}

async function readKind({ resource, singular, shown }: CustomKind, session: Session): Promise<ReadKind> {
  const counts = { inForce: 0, faulty: 0, unseen: 0 };
  const remarks: RemarkLine[] = [];
  const take = (object: Remarked): void => {
    const { state, remarks: said } = stateOf(object, shown);
    counts[state] += 1;
    const name = `${singular}/${object.metadata?.name}`;
    for (const { text, needsPerson = false, names } of said)
      remarks.push({
        object: name,
        text,
        needsPerson,
        ...(names && { nodes: names.map((node) => ({ node })) }),
      });
  };
  const isRead = await eachObject({ resource, project: slim }, session, take);
  return { line: { kind: resource.kind, isRead, ...counts }, remarks };
}

/** What `stateOf` and remarks look at. */
function slim({
  metadata: { name, generation } = {},
  spec,
  status,
}: Remarked & { spec?: unknown }): Remarked {
  const metadata = { ...(name && { name }), ...(generation !== undefined && { generation }) };
  return { metadata, ...(spec !== undefined && { spec }), ...(status && { status }) };
}

/** Asks the first held nodes since when: the record on a node has it. */
async function withSince(lines: readonly RemarkLine[], session: Session): Promise<readonly RemarkLine[]> {
  const { client, signal, installation } = session;
  const asked = [...new Set(lines.flatMap(({ nodes: held = [] }) => held.map(({ node }) => node)))];
  const found = new Map<string, Node>();
  const ask = async (name: string): Promise<void> => {
    const read = (): Promise<Node> => client.get(nodes, { name }, { signal, metadataOnly: true });
    const node = await unlessForbidden("Nodes", session, read).catch((error: unknown) => {
      if (!isApiError(error, "notFound")) throw error;
    });
    if (node) found.set(name, node);
  };
  await Promise.all(asked.slice(0, MAX_NODES).map(ask));
  const sinceOf = (node: string, rule: string): string | undefined =>
    ownedMarks(recordOf(found.get(node) ?? {}), installation)
      .values()
      .find((mark) => mark.rule === rule)?.since;
  return lines.map((line) => {
    if (line.nodes === undefined) return line;
    const rule = `cluster/${line.object.split("/")[1]}`;
    const held = line.nodes.map(({ node }) => {
      const since = sinceOf(node, rule);
      return { node, ...(since !== undefined && { since }) };
    });
    return { ...line, nodes: held };
  });
}
