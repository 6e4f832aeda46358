/**
 * A hub with very many cells, made of a real one with one: a Workload of ten Instances runs there until nothing changes any
 * more, and all its objects are multiplied, with other names, uids and signatures.
 */
import { type Cell, cells, instances, type Workload, workloadDeployments, workloads } from "@berth/fleet";
import {
  type KubeClient,
  type KubeObject,
  namespaces,
  type Resource,
  type Secret,
  secrets,
} from "@berth/kube";
import { eventually, startTestCluster, type TestCluster } from "@berth/testcluster";
import { annotations as keys } from "../packages/fleet/src/api/keys.ts";
import { createSigner, originOf } from "../packages/fleet/src/api/origin.ts";
import { HOME, playCells } from "../packages/fleet/src/testing/cell-actor.ts";
import { templateSpec } from "./fleet-stage.ts";
import { addCell, openHubStage, prepare, readyOf, waitForCells } from "./hub-stage.ts";
import type { Collection, SimulatedPlane } from "./simulated-wire.ts";

/** Deployments of a cell, and Instances of each. */
export const PER_CELL = 100;
export const EACH = 10;
/** Cells of a city. */
const PER_CITY = 10;
const LATEST_MS = 60_000;
/** What stands in the names of the real fleet for what is other in each part of the simulated one. */
const NAME = { load: "simload", space: "simspace", city: "SIMCITY", cell: "simcell" } as const;
const KINDS = { workloads, deployments: workloadDeployments, instances, namespaces } as const;

type Kind = keyof typeof KINDS;
/** Objects of a plane, without those that are no part of the fleet. */
type Plane = Readonly<Record<Kind, readonly KubeObject[]>>;

export interface Sample extends AsyncDisposable {
  readonly hub: TestCluster;
  readonly cell: TestCluster;
  readonly onHub: Plane;
  readonly inCell: Plane;
  readonly cells: readonly Cell[];
  readonly secrets: readonly Secret[];
}

/** Resolves once the real fleet is at rest and Berth has ended. */
export async function takeSample(): Promise<Sample> {
  await using owned = new AsyncDisposableStack();
  const hub = owned.use(await startTestCluster());
  const cell = owned.use(await startTestCluster({ small: true }));
  await using stage = await openHubStage(hub);
  await prepare(cell.client);
  const { cell: name, space: namespace, city } = NAME;
  {
    await using _played = await playCells(cell.client, [name]);
    await using berth = await stage.startBerth();
    const user = await cell.user("hub", ["system:masters"]);
    const kubeconfig = cell.kubeconfig({ user });
    const plane = { name, city, client: cell.client, kubeconfig, identityNamespace: "kube-system" };
    await addCell(stage, plane);
    await waitForCells(stage, 1, LATEST_MS, berth);
    await hub.client.create(namespaces, { metadata: { name: namespace } });
    await hub.client.create(workloads, aWorkload());
    await eventually(
      async () => {
        const found = await hub.client.get(workloads, { namespace, name: NAME.load });
        const { items } = await hub.client.list(instances);
        const isShown = items.length === 2 * EACH && items.every((it) => it.status?.conditions?.length);
        if (readyOf(found) !== EACH || !isShown) throw new Error(`it is not ready\n${berth.log}`);
      },
      { timeoutMs: LATEST_MS, everyMs: 500 },
    );
  }
  const sample = {
    hub,
    cell,
    onHub: await planeOf(hub.client),
    inCell: await planeOf(cell.client),
    cells: await listed(hub.client, cells),
    secrets: await listed(hub.client, secrets, HOME),
  };
  const kept = owned.move();
  return { ...sample, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

function aWorkload(): Workload {
  const scaleSettings = { minReplicas: EACH };
  return {
    metadata: { namespace: NAME.space, name: NAME.load },
    spec: {
      template: { spec: templateSpec("1") },
      placements: [{ name: "all", cityCodes: [NAME.city], scaleSettings }],
    },
  } as Workload;
}

async function planeOf(client: KubeClient): Promise<Plane> {
  const all = Object.entries(KINDS).map(async ([kind, resource]) => {
    const found = await listed<KubeObject>(client, resource);
    return [kind, kind === "namespaces" ? found.filter(isOfFleet) : found] as const;
  });
  return Object.fromEntries(await Promise.all(all)) as Plane;
}

const isOfFleet = ({ metadata }: KubeObject): boolean => /^(?:simspace$|ns-)/.test(metadata?.name ?? "");

/** Without what servers keep about writers. */
async function listed<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  namespace?: string,
): Promise<readonly T[]> {
  const { items } = await client.list(resource, namespace === undefined ? {} : { namespace });
  const { group, version, kind } = resource;
  const apiVersion = group === "" ? version : `${group}/${version}`;
  return items.map((item) => {
    const { managedFields: _fields, ...metadata } = item.metadata ?? {};
    return Object.assign(item, { apiVersion, kind, metadata: { ...metadata, resourceVersion: "1000" } });
  });
}

/** Of one deployment, numbered over all cells. */
type Token = (deployment: number) => string;

/** A text in which tokens of the sample are replaced. They have no characters that mean something in an expression. */
class Template {
  readonly #parts: readonly (string | Token)[];

  constructor(object: KubeObject | undefined, tokens: ReadonlyMap<string, Token>) {
    if (object === undefined) throw new Error("the sample lacks an object");
    const pattern = new RegExp(`(${[...tokens.keys()].join("|")})`);
    this.#parts = JSON.stringify(object)
      .split(pattern)
      .map((part) => tokens.get(part) ?? part);
  }

  at(deployment: number): string {
    let text = "";
    for (const part of this.#parts) text += typeof part === "string" ? part : part(deployment);
    return text;
  }
}

const cellOf = (deployment: number): number => Math.floor(deployment / PER_CELL);
const digits = (index: number, count: number): string => String(index).padStart(count, "0");
const cityName = (cell: number): string => `C${digits(Math.floor(cell / PER_CITY), 3)}`;
export const cellName = (cell: number): string => `cell-${digits(cell, 4)}`;
const uidOf = ({ metadata }: KubeObject): string => metadata?.uid ?? "";
/** The sample's, with the number of the deployment or the cell. */
const uidAt = (uid: string, index: number): string =>
  `${uid.slice(0, 24)}${index.toString(16).padStart(12, "0")}`;
const KUBECONFIG = "SIMKUBECONFIG";

/** The planes by the first part of their paths: `hub`, and the cells by their names. */
export function multiply(
  sample: Sample,
  cellCount: number,
): (origin: string) => ReadonlyMap<string, SimulatedPlane> {
  const { hub, cell, onHub, inCell } = sample;
  const behind = ({ url, ca, adminToken: token }: TestCluster): SimulatedPlane["behind"] => ({
    url,
    ca,
    token,
  });
  return (origin) => {
    const tokens = tokensOf(sample, origin);
    const template = (object: KubeObject | undefined): Template => new Template(object, tokens);
    const [inProject, copies] = [
      onHub.deployments.find((it) => !isOnHub(it)),
      onHub.deployments.find(isOnHub),
    ].map(template) as [Template, Template];
    const byOrdinal = (of: readonly KubeObject[]): readonly Template[] =>
      of.toSorted((a, b) => ordinalOf(a) - ordinalOf(b)).map(template);
    const instancesOf = [
      byOrdinal(onHub.instances.filter((it) => !isOnHub(it))),
      byOrdinal(onHub.instances.filter(isOnHub)),
    ];
    const top = template(onHub.workloads[0]);
    const count = cellCount * PER_CELL;
    const [space, hubSpace] = [false, true].map((it) =>
      template(onHub.namespaces.find(({ metadata }) => metadata?.name?.startsWith("ns-") === it)),
    ) as [Template, Template];
    const aCell = template(sample.cells[0]);
    const [ofCell, ...others] = sample.secrets.toSorted((a) => (a.metadata?.name === SECRET ? -1 : 1));
    const aSecret = template({ ...ofCell, data: { kubeconfig: KUBECONFIG } } as KubeObject);
    const place = (namespace: string): number => (namespace.startsWith("ns-") ? 1 : 0);
    const collections = new Map<string, Collection>([
      [pathOf(workloads), { count, text: (at) => top.at(at), indexOf: (_, name) => deploymentIn(name) }],
      [
        pathOf(workloadDeployments),
        {
          count: 2 * count,
          text: (at) => (at < count ? inProject : copies).at(at % count),
          indexOf: (namespace, name) => place(namespace) * count + deploymentIn(name),
        },
      ],
      [
        pathOf(instances),
        {
          count: 2 * count * EACH,
          text: (at) => instanceAt(instancesOf[Math.floor(at / (count * EACH))] ?? [], at % (count * EACH)),
          indexOf: (namespace, name) =>
            place(namespace) * count * EACH + deploymentIn(name) * EACH + ordinalIn(name),
        },
      ],
      [
        pathOf(namespaces),
        {
          count: 2 * cellCount,
          text: (at) => (at < cellCount ? space : hubSpace).at((at % cellCount) * PER_CELL),
          indexOf: (_, name) =>
            /^s\d{4}$/.test(name)
              ? Number(name.slice(1))
              : name.startsWith("ns-")
                ? cellCount + Number.parseInt(name.slice(-12), 16)
                : undefined,
        },
      ],
      [
        pathOf(cells),
        {
          count: cellCount,
          text: (at) => aCell.at(at * PER_CELL),
          indexOf: (_, name) => Number(name.slice(-4)),
        },
      ],
      [
        pathOf(secrets),
        {
          count: cellCount + others.length,
          text: (at) => (at < cellCount ? aSecret.at(at * PER_CELL) : JSON.stringify(others[at - cellCount])),
          indexOf: (_, name) => {
            const at = others.findIndex((it) => it.metadata?.name === name);
            return at >= 0
              ? cellCount + at
              : name.startsWith("berth-cell-")
                ? Number(name.slice(-4))
                : undefined;
          },
        },
      ],
    ]);
    const planes = new Map<string, SimulatedPlane>([
      ["hub", { collections, answer: () => undefined, behind: behind(hub) }],
    ]);
    const deployment = template(inCell.deployments[0]);
    const cellSpace = template(inCell.namespaces[0]);
    const ofInstances = byOrdinal(inCell.instances);
    const identity = identityUid(sample);
    for (let at = 0; at < cellCount; at += 1) {
      const first = at * PER_CELL;
      planes.set(cellName(at), {
        behind: behind(cell),
        collections: new Map<string, Collection>([
          [
            pathOf(workloadDeployments),
            {
              count: PER_CELL,
              text: (of) => deployment.at(first + of),
              indexOf: (_, name) => deploymentIn(name) - first,
            },
          ],
          [
            pathOf(instances),
            {
              count: PER_CELL * EACH,
              text: (of) => instanceAt(ofInstances, first * EACH + of),
              indexOf: (_, name) => (deploymentIn(name) - first) * EACH + ordinalIn(name),
            },
          ],
          [
            pathOf(namespaces),
            {
              count: 1,
              text: () => cellSpace.at(first),
              indexOf: (_, name) => (name.startsWith("ns-") ? 0 : undefined),
            },
          ],
        ]),
        answer: (path, query) => answerOf(at, uidAt(identity, at), path, query),
      });
    }
    return planes;
  };
}

const SECRET = `berth-cell-${NAME.cell}`;
const isOnHub = ({ metadata }: KubeObject): boolean => metadata?.namespace?.startsWith("ns-") === true;
const ordinalOf = ({ metadata }: KubeObject): number => ordinalIn(metadata?.name ?? "");
const ordinalIn = (name: string): number => Number(name.slice(name.lastIndexOf("-") + 1));
const deploymentIn = (name: string): number => Number(name.slice(1, 7));
const instanceAt = (of: readonly Template[], at: number): string =>
  of[at % EACH]?.at(Math.floor(at / EACH)) ?? "";
const pathOf = ({ group, version, plural }: Resource): string =>
  group === "" ? `/api/${version}/${plural}` : `/apis/${group}/${version}/${plural}`;

/** Of the real cell, as its Cell says. */
function identityUid({ cells: [cell] }: Sample): string {
  return cell?.spec?.uid ?? "";
}

function tokensOf(sample: Sample, origin: string): ReadonlyMap<string, Token> {
  const { onHub, inCell, cells: all } = sample;
  const [deployment] = inCell.deployments;
  const secret = sample.secrets.find((it) => it.metadata?.name === SECRET);
  const tokens = new Map<string, Token>([
    [NAME.load, (of) => `w${digits(of, 6)}`],
    [NAME.space, (of) => `s${digits(cellOf(of), 4)}`],
    [NAME.cell, (of) => cellName(cellOf(of))],
    [NAME.city, (of) => cityName(cellOf(of))],
    [NAME.city.toLowerCase(), (of) => cityName(cellOf(of)).toLowerCase()],
    [KUBECONFIG, (of) => kubeconfigOf(sample.hub, `${origin}/${cellName(cellOf(of))}`, cellOf(of))],
  ]);
  const numbered = (objects: readonly (KubeObject | undefined)[], number: (of: number) => number): void => {
    for (const uid of objects.flatMap((it) => (it === undefined ? [] : uidOf(it))))
      tokens.set(uid, (of) => uidAt(uid, number(of)));
  };
  for (const { workloads: top, deployments, instances: each } of [onHub, inCell])
    numbered([...top, ...deployments, ...each], (of) => of);
  numbered([...onHub.namespaces, ...inCell.namespaces, ...all, secret], cellOf);
  const identity = identityUid(sample);
  tokens.set(identity, (of) => uidAt(identity, cellOf(of)));
  const signer = createSigner(Buffer.from(keyOf(sample), "base64"));
  const seen = deployment && originOf(deployment, identity, signer);
  if (seen?.is !== "signed") throw new Error("the deployment of the sample is not signed");
  const { origin: of } = seen;
  const { name = "", namespace = "", annotations = {} } = deployment?.metadata ?? {};
  const at = (text: string, number: number): string =>
    text
      .replaceAll(NAME.load, `w${digits(number, 6)}`)
      .replaceAll(NAME.city.toLowerCase(), cityName(cellOf(number)).toLowerCase());
  tokens.set(annotations[keys.signature] ?? "", (number) =>
    signer.sign(
      { ...of, sourceUid: uidAt(of.sourceUid, number) },
      {
        cellUid: uidAt(identity, cellOf(number)),
        namespace: uidAt(namespace.slice(3), cellOf(number)).replace(/^/, "ns-"),
        name: at(name, number),
      },
    ),
  );
  return tokens;
}

function keyOf({ secrets: all }: Sample): string {
  const found = all.find((it) => it.data?.["key"] !== undefined);
  return found?.data?.["key"] ?? "";
}

function kubeconfigOf(hub: TestCluster, server: string, cell: number): string {
  const user = { name: "hub", groups: [], token: `token-of-${cellName(cell)}` };
  return Buffer.from(hub.kubeconfig({ server, user })).toString("base64");
}

function answerOf(cell: number, uid: string, path: string, query: URLSearchParams): string | undefined {
  if (path === "/api/v1/namespaces/kube-system")
    return JSON.stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name: "kube-system", uid } });
  const name = `compute-cell-${cellName(cell)}`;
  if (query.get("fieldSelector") !== `metadata.name=${name}`) return undefined;
  const now = Date.now();
  // Berth in a cell renews it every five seconds.
  const resourceVersion = String(Math.floor(now / 5_000));
  const spec = {
    holderIdentity: "simulated",
    leaseDurationSeconds: 15,
    renewTime: new Date(now).toISOString(),
  };
  const item = { metadata: { name, namespace: HOME, uid, resourceVersion }, spec };
  return JSON.stringify({ kind: "LeaseList", metadata: { resourceVersion }, items: [item] });
}
