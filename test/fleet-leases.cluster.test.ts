/** Who leads: Berth's Lease what concerns nodes, the fleet's Lease its controllers, whoever runs beside whom. */

import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type BerthOptions, type RunningBerth, startBerth } from "@berth/cli";
import { fleetKind } from "@berth/fleet";
import { type Lease, leases, nodes } from "@berth/kube";
import { describeRunEnd } from "@berth/runtime";
import { aNode, eventually, sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";

const cluster = await sharedTestCluster();
const { client } = cluster;
const OWN = { namespace: "default", name: "berth" };
const FLEET = { namespace: "default", name: "compute-single" };

const fleet = { spec: fleetKind.spec.parse({ mode: "single", cities: ["DFW"], networking: "Off" }) };

const holderOf = async (of: typeof OWN): Promise<string | undefined> =>
  (await client.get(leases, of)).spec?.holderIdentity;

const give = (of: typeof OWN, holderIdentity: string): Promise<Lease> =>
  eventually(async () => {
    const now = await client.get(leases, of);
    return client.replace(leases, { ...now, spec: { ...now.spec, holderIdentity } });
  });

it("C21 F3 a Berth with a Fleet beside one without: one of them writes nodes, and a lost Lease of the fleet ends its process", async () => {
  await using folder = await mkdtempDisposable(path.join(tmpdir(), "leases-"));
  await writeFile(path.join(folder.path, "gpu"), "gpu.present\n");
  await using stack = new AsyncDisposableStack();
  const begun = await cluster.audit.mark();
  const start = async (identity: string, more: Partial<BerthOptions> = {}): Promise<RunningBerth> => {
    const labelFolder = { path: folder.path, shown: "labels", options: { allowReserved: [] } };
    const own = { client: stack.use(cluster.connect({ userAgent: identity })), identity };
    return stack.use(await startBerth({ ...own, lease: OWN, labelFolder, ...more }));
  };
  const writersOf = async (name: string): Promise<readonly string[]> =>
    (await cluster.audit.entriesSince(begun, { verb: "patch", resource: "nodes", name })).map(
      ({ userAgent }) => userAgent,
    );
  const labelled = (name: string): Promise<void> =>
    eventually(async () =>
      expect((await client.get(nodes, { name })).metadata?.labels).toHaveProperty("gpu", "true"),
    );
  const present = (name: string) => aNode(name).labelled({ "gpu.present": "1" }).build();

  const without = await start("without");
  await eventually(async () => expect(await holderOf(OWN)).toBe("without"));
  const withFleet = await start("with", { fleet });
  await eventually(async () => expect(await holderOf(FLEET)).toBe("with"));
  await client.create(nodes, present("first"));
  await labelled("first");
  expect([await holderOf(OWN), await writersOf("first")]).toEqual(["without", ["without"]]);

  const other = await start("other", { fleet });
  await give(FLEET, "another");
  const end = await withFleet.ended;
  expect(end).toMatchObject({ reason: "lost leadership", lease: FLEET.name });
  expect(describeRunEnd(end)).toBe("lost leadership");
  // A Lease without a holder is free: nothing waits until it would have run out.
  await give(FLEET, "");
  await eventually(async () => expect(await holderOf(FLEET)).toBe("other"));
  expect(await holderOf(OWN)).toBe("without");

  await give(OWN, "other");
  await without.ended;
  await eventually(async () => expect(other.problems()).toEqual([]));
  await client.create(nodes, present("second"));
  await labelled("second");
  expect(await writersOf("second")).toEqual(["other"]);
});
