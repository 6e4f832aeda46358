/** What tests of faults have in common: nodes with rules, a Berth behind a proxy, and changes that it must follow. */
import { ok } from "node:assert";
import { type HttpProxy, type RequestMatch, startHttpProxy, type TestCluster } from "@berth/testcluster";
import { createLabelFixture, type LabelFixture } from "./label-fixture.ts";
import type { BerthProcess } from "./product.ts";

/** Berth's writes of nodes, and its way of seeing them. */
export const WRITES: RequestMatch = { verb: "patch", resource: "nodes" };
export const READS: RequestMatch = { verb: ["list", "watch"], resource: "nodes" };

const NODES = 8;

/** Eight nodes, of which every other one is to be labelled. */
export async function populate(cluster: TestCluster, name: string): Promise<LabelFixture> {
  const fixture = await createLabelFixture(cluster, name);
  await fixture.rules.write("has/usb", "usb.present");
  await fixture.rules.write("has/any", "has/usb", "pci.present");
  for (let n = 0; n < NODES; n++)
    await fixture.add(`n${n}`, (it) => it.labelled(n % 2 === 0 ? { "usb.present": "true" } : {}));
  return fixture;
}

/** Labels come and go on nodes, one node is new, and one is gone. */
export async function changeNodes(fixture: LabelFixture): Promise<void> {
  await fixture.label("n0", { "usb.present": null });
  await fixture.label("n1", { "usb.present": "true" });
  await fixture.label("n2", { "usb.present": null, "pci.present": "1" });
  await fixture.remove("n4");
  await fixture.add("new", (it) => it.labelled({ "pci.present": "1" }));
}

/** And one rule is new. */
export async function changeRules(fixture: LabelFixture): Promise<void> {
  await fixture.rules.write("pool/blue", "pool", "usb.present");
}

/** Both together, quickly one after the other. */
export async function changeAll(fixture: LabelFixture): Promise<void> {
  await changeNodes(fixture);
  await changeRules(fixture);
}

/** All of it has been followed, and now nothing is written any more. */
export async function followed(
  fixture: LabelFixture,
  options: { readonly timeoutMs?: number } = {},
): Promise<void> {
  await fixture.right(options);
  const { "has/usb": usb, "has/any": any, "pool/blue": blue } = fixture.expected("n1");
  ok(usb === "true" && any === "true" && blue === "true", "n1 was to gain three labels");
  ok(fixture.expected("n0")["has/any"] === undefined, "n0 was to lose its label");
  await fixture.restful();
}

export interface ProxiedFixture extends AsyncDisposable {
  readonly fixture: LabelFixture;
  readonly proxy: HttpProxy;
  readonly berth: BerthProcess;
}

/** The nodes, labelled by a Berth that reaches the server through a proxy. */
export async function populateBehindProxy(cluster: TestCluster, name: string): Promise<ProxiedFixture> {
  await using owned = new AsyncDisposableStack();
  const proxy = owned.use(await proxyOf(cluster));
  const fixture = owned.use(await populate(cluster, name));
  const berth = await fixture.start({ server: proxy.url });
  await fixture.right();
  const kept = owned.move();
  return { fixture, proxy, berth, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

export async function proxyOf({ authority, url, ca }: TestCluster): Promise<HttpProxy> {
  const certificate = await authority.issueServing(["127.0.0.1"]);
  return startHttpProxy({ target: url, ca, certificate });
}
