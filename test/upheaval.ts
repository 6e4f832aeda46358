/** What tests of faults have in common: nodes with rules, a Berth behind a proxy, and changes that it must follow. */
import { ok } from "node:assert";
import { type HttpProxy, type RequestMatch, startHttpProxy, type TestCluster } from "@berth/testcluster";
import type { BerthProcess } from "./product.ts";
import { createWorld, type World } from "./world.ts";

/** Berth's writes of nodes, and its way of seeing them. */
export const WRITES: RequestMatch = { verb: "patch", resource: "nodes" };
export const READS: RequestMatch = { verb: ["list", "watch"], resource: "nodes" };

const NODES = 8;

/** Eight nodes, of which every other one is to be labelled. */
export async function populate(cluster: TestCluster, name: string): Promise<World> {
  const world = await createWorld(cluster, name);
  await world.rules.write("has/usb", "usb.present");
  await world.rules.write("has/any", "has/usb", "pci.present");
  for (let n = 0; n < NODES; n++)
    await world.add(`n${n}`, (it) => it.labelled(n % 2 === 0 ? { "usb.present": "true" } : {}));
  return world;
}

/** Labels come and go on nodes, one node is new, and one is gone. */
export async function changeNodes(world: World): Promise<void> {
  await world.label("n0", { "usb.present": null });
  await world.label("n1", { "usb.present": "true" });
  await world.label("n2", { "usb.present": null, "pci.present": "1" });
  await world.remove("n4");
  await world.add("new", (it) => it.labelled({ "pci.present": "1" }));
}

/** And one rule is new. */
export async function changeRules(world: World): Promise<void> {
  await world.rules.write("pool/blue", "pool", "usb.present");
}

/** Both together, quickly one after the other. */
export async function changeAll(world: World): Promise<void> {
  await changeNodes(world);
  await changeRules(world);
}

/** All of it has been followed, and now nothing is written any more. */
export async function followed(world: World, options: { readonly timeoutMs?: number } = {}): Promise<void> {
  await world.right(options);
  const { "has/usb": usb, "has/any": any, "pool/blue": blue } = world.expected("n1");
  ok(usb === "true" && any === "true" && blue === "true", "n1 was to gain three labels");
  ok(world.expected("n0")["has/any"] === undefined, "n0 was to lose its label");
  await world.restful();
}

export interface Stage extends AsyncDisposable {
  readonly world: World;
  readonly proxy: HttpProxy;
  readonly berth: BerthProcess;
}

/** The nodes, labelled by a Berth that reaches the server through a proxy. */
export async function stage(cluster: TestCluster, name: string): Promise<Stage> {
  await using owned = new AsyncDisposableStack();
  const proxy = owned.use(await proxyOf(cluster));
  const world = owned.use(await populate(cluster, name));
  const berth = await world.start({ server: proxy.url });
  await world.right();
  const kept = owned.move();
  return { world, proxy, berth, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

export async function proxyOf({ authority, url, ca }: TestCluster): Promise<HttpProxy> {
  const certificate = await authority.issueServing(["127.0.0.1"]);
  return startHttpProxy({ target: url, ca, certificate });
}
