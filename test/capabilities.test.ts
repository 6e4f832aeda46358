/** A made-up capability in the list: everything else that lists capabilities takes it from there. */
import { type CustomKind, conditions, type ServedKind } from "@berth/host";
import { defineResource, type ValidatingAdmissionPolicy } from "@berth/kube";
import type { NodeCapability } from "@berth/placement";
import { expect, it, vi } from "vitest";
import * as z from "zod";
import { berthWith, itemsOf } from "../packages/cli/src/testing/harness.ts";

const names = { plural: "tidyrules", kind: "TidyRule" };

vi.mock("../packages/cli/src/capabilities.ts", async (load) => {
  const real = await load<typeof import("../packages/cli/src/capabilities.ts")>();
  const common: Pick<CustomKind, "singular" | "shortNames" | "description" | "status" | "columns"> = {
    singular: "tidyrule",
    shortNames: ["tr"],
    description: "What is kept tidy.",
    status: z.strictObject({ conditions }).describe("Written by Berth."),
    columns: [],
  };
  const kind: ServedKind = {
    ...common,
    kind: names.kind,
    resource: defineResource({ group: "berth.dev", version: "v1alpha1", ...names, namespaced: false }),
    spec: z.strictObject({ shelves: z.int().max(9).describe("How many.") }),
    whenAway: "keep",
  };
  const shelves = { group: "example.com", plural: "shelves", kind: "Shelf" };
  const tidy: NodeCapability = {
    name: "tidy",
    kinds: [kind],
    admission: [{ name: "tidy-pods", effect: "mutate" }],
    changes: {
      fields: [{ resource: shelves, paths: ["spec.books.order", "spec.dust", "spec.dust.colour"] }],
      schedulingGates: ["a.test/tidy"],
    },
    permissions: ({ documents }) => [
      {
        role: "tidy",
        rule: { apiGroups: ["example.com"], resources: ["shelves"], verbs: ["patch"] },
        ...(documents.documentsOf(kind).length > 0 && { unusual: "tidy shelves (TidyRule)" }),
      },
    ],
    restartsPods: true,
    once: () => ({
      does: ["clean"],
      read: () => Promise.resolve({ isGiven: true, faults: [], refused: [], stops: [] }),
    }),
    wire: () => ({}),
  };
  return {
    ...real,
    nodeCapabilities: [...real.nodeCapabilities, tidy],
    capabilities: [...real.capabilities, tidy],
  };
});

const RULE = "apiVersion: berth.dev/v1alpha1\nkind: TidyRule\nmetadata: {name: a}\nspec: {shelves: 3}\n";

it("documents of its kind are read, and faults have their place", async () => {
  const files = { "rule.yaml": RULE, "wrong.yaml": RULE.replace("3", "10") };
  expect((await berthWith(files, "validate rule.yaml")).code).toBe(0);
  const { code, stdout, stderr } = await berthWith(files, "validate wrong.yaml");
  expect(code).not.toBe(0);
  expect(stdout + stderr).toContain("wrong.yaml:4:17");
});

it("manifests print its CRD, its roles and the rights of its kind", async () => {
  const crds = itemsOf(await berthWith({}, "manifests crds -o json"));
  expect(crds.map(({ metadata }) => metadata?.name)).toContain("tidyrules.berth.dev");
  const install = "manifests --image berth:1 -o json --config rule.yaml --capabilities";
  const found = await berthWith({ "rule.yaml": RULE }, `${install} labels,tidy`);
  expect(found.stderr).toContain("tidy shelves (TidyRule)");
  const roles = itemsOf(found).filter(({ kind }) => kind === "ClusterRole");
  expect(roles.map(({ metadata }) => metadata?.name)).toEqual(["berth", "berth-tidy"]);
  expect(JSON.stringify(roles[0])).toContain('"tidyrules/status"');
  const without = itemsOf(await berthWith({ "rule.yaml": RULE }, `${install} labels`));
  expect(without.map(({ metadata }) => metadata?.name)).not.toContain("berth-tidy");
});

it("the policy that confines the account lets it change the fields and take off the gate", async () => {
  const objects = itemsOf(await berthWith({}, "manifests --image berth:1 -o json"));
  const { spec } = objects.find(
    ({ kind }) => kind === "ValidatingAdmissionPolicy",
  ) as ValidatingAdmissionPolicy;
  expect(spec?.matchConstraints?.resourceRules).toContainEqual(
    expect.objectContaining({ apiGroups: ["example.com"], resources: ["shelves", "shelves/*"] }),
  );
  const allows = (message: string): string =>
    spec?.validations?.find((it) => it.message?.endsWith(message))?.expression ?? "";
  expect(allows("change this field of a shelf")).toContain('k in ["order"]');
  expect(allows("change this field of a shelf")).toContain('k in ["books", "dust"]');
  expect(allows("change this field of a shelf")).not.toContain("colour");
  expect(allows("change this field of a pod")).toContain('g.name == "a.test/tidy" ||');
});

it.each(["clean", "manifests"])("berth %s --help names it, and so does the reference", async (command) => {
  const { stdout } = await berthWith({}, `${command} --help`);
  expect(stdout.replaceAll(/\s+/g, " ")).toMatch(/labels.{0,99}tidy/);
  const { renderReference } = await import("../packages/cli/src/testing/reference.ts");
  const section = new RegExp(`^## berth ${command}$.*?\\btidy\\b`, "ms");
  expect(renderReference()).toMatch(section);
});

it("clean takes its name, and restarts pods of it", async () => {
  const unreachable = "--kubeconfig none.yaml";
  const { stderr } = await berthWith({}, `clean --capability tidy --restart-pods ${unreachable}`);
  expect(stderr).toContain("none.yaml");
  const wrong = await berthWith({}, `clean --capability labels --restart-pods ${unreachable}`);
  expect(wrong.stderr).toContain("--restart-pods is for --capability architecture, tidy");
});
