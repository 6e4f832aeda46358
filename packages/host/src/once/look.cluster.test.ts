/** `plan` and `explain` of a made-up operator on a real API server, by documents in a file. */
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configMaps, defineResource } from "@berth/kube";
import { sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import * as z from "zod";
import { kindsOf } from "../capability.ts";
import type { ServedKind } from "../documents/document-kind.ts";
import { objectCapability } from "../objects/object-capability.ts";
import { explainOnce, planOnce } from "./look.ts";

const NAMES = { plural: "teamrules", kind: "TeamRule" };
const kind: ServedKind<{ team: string }> = {
  kind: NAMES.kind,
  resource: defineResource({ group: "look.test", version: "v1", ...NAMES, namespaced: false }),
  singular: "teamrule",
  shortNames: [],
  description: "The team of ConfigMaps.",
  spec: z.strictObject({ team: z.string().max(9) }),
  status: z.strictObject({}),
  columns: [],
  whenAway: "keep",
};
const teams = objectCapability({
  name: "teams",
  kind,
  resource: configMaps,
  decide({ metadata: { name = "", labels = {} } = {} }, [first]) {
    const team = first?.spec.team;
    if (!name.startsWith("look-") || team === undefined || labels["team"] === team) return undefined;
    const patch = { type: "merge", body: { metadata: { labels: { team } } } } as const;
    return { intents: [{ do: "patch", patch, reason: "TeamMissing", message: `it is of ${team}` }] };
  },
});

it("prints what is due as text and as data, and faults of documents apart, and writes nothing", async () => {
  const { client } = await sharedTestCluster();
  const namespace = "default";
  await client.create(configMaps, { metadata: { namespace, name: "look-a" } }, { namespace });
  await client.create(
    configMaps,
    { metadata: { namespace, name: "look-b", labels: { team: "red" } } },
    { namespace },
  );
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-look-"));
  const document = (name: string, team: string): string =>
    `---\napiVersion: look.test/v1\nkind: TeamRule\nmetadata: {name: ${name}}\nspec: {team: ${team}}\n`;
  await writeFile(join(folder.path, "rules.yaml"), document("a", "red") + document("b", "much-too-long"));
  const look = async (ask: typeof planOnce, format: "text" | "json") => {
    const said = { stdout: "", stderr: "" };
    const to = (where: keyof typeof said) => ({ write: (text: string) => void (said[where] += text) });
    const kinds = kindsOf("look.test/v1", [teams]);
    const streams = { stdout: to("stdout"), stderr: to("stderr") };
    await ask([teams], { client, kinds, config: [folder.path], format, ...streams });
    return said;
  };
  const planned = await look(planOnce, "text");
  expect(planned.stdout).toBe("default/look-a: patch: TeamMissing: it is of red\n");
  expect(planned.stderr).toMatch(/rules\.yaml:10:14: error: .*\n$/);
  const change = { do: "patch", reason: "TeamMissing", message: "it is of red" };
  expect(JSON.parse((await look(planOnce, "json")).stdout)).toEqual({
    teams: [{ object: "default/look-a", changes: [change] }],
  });
  const explain =
    (name: string): typeof planOnce =>
    (capabilities, options) =>
      explainOnce(capabilities, { namespace, name }, options);
  expect((await look(explain("look-b"), "text")).stdout).toBe("default/look-b: nothing to change\n");
  expect((await look(explain("look-c"), "json")).stdout).toBe("{}\n");
  expect((await client.get(configMaps, { namespace, name: "look-a" })).metadata?.labels).toBeUndefined();
});
