/** Values that do not fit the schema are refused by helm, with their places. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readYaml } from "@berth/host";
import { expect, it } from "vitest";
import { CHART, rendered } from "./rendered.ts";
import { schemaText } from "./schema.ts";

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly minimum?: number;
}

/** Of one kind, so that all can be given at once: a wrong value at one place hides none at another. */
type Mutation = (schema: Schema) => unknown;

const WRONG_TYPE: Readonly<Record<string, unknown>> = {
  string: 5,
  boolean: "yes",
  integer: "two",
  array: "none",
};
const mutations: Readonly<Record<string, Mutation>> = {
  "wrong types": ({ type = "" }) => WRONG_TYPE[type],
  "texts and numbers out of range": ({ pattern, enum: values, minimum }) =>
    pattern !== undefined || values !== undefined ? "!?" : minimum === undefined ? undefined : minimum - 1,
  "lists in place of objects": ({ type }) => (type === "object" ? [] : undefined),
  "fields that there are not": ({ additionalProperties }) =>
    additionalProperties === false ? { "no such field": 1 } : undefined,
};

/** The values that a mutation makes, and the paths of the wrong ones as helm names them. */
function mutated(
  schema: Schema,
  mutation: Mutation,
  path = "",
): { value: unknown; paths: readonly string[] } {
  const fields = Object.entries(schema.properties ?? {}).map(([key, it]) =>
    Object.assign({ key }, mutated(it, mutation, `${path}/${key}`)),
  );
  const wrong = path === "" ? undefined : mutation(schema);
  const [own, isOwn] = [wrong, wrong !== undefined];
  if (isOwn && (fields.length === 0 || Array.isArray(own))) return { value: own, paths: [path] };
  const item = schema.items && mutated(schema.items, mutation, `${path}/0`);
  if (item !== undefined && item.paths.length > 0) return { value: [item.value], paths: item.paths };
  const found = fields.filter(({ paths }) => paths.length > 0);
  if (found.length === 0 && !isOwn) return { value: undefined, paths: [] };
  return {
    value: { ...Object.fromEntries(found.map(({ key, value }) => [key, value])), ...Object(own) },
    paths: [...found.flatMap(({ paths }) => paths), ...(isOwn ? [path] : [])],
  };
}

const all = Object.entries(mutations).map(([what, mutation]) =>
  Object.assign({ what }, mutated(JSON.parse(schemaText) as Schema, mutation)),
);

it.each(all)("$what are refused, each with its path", ({ value, paths }) => {
  let said = "";
  expect(() => {
    try {
      rendered(value as object);
    } catch (error) {
      said = String(error);
      throw error;
    }
  }).toThrow("values don't meet the specifications of the schema");
  const named = new Set([...said.matchAll(/- at '([^']*)'/g)].map(([, path]) => path));
  expect(paths.filter((path) => !named.has(path))).toEqual([]);
});

it("these are more than 50 wrong values", () =>
  expect(all.flatMap(({ paths }) => paths).length).toBeGreaterThan(50));

it("each value has a default and a comment", () => {
  const text = readFileSync(join(CHART, "values.yaml"), "utf8");
  const [given] = readYaml(text).documents;
  const { properties = {} } = JSON.parse(schemaText) as Schema;
  const own = Object.keys(properties).filter((key) => key !== "global");
  expect(Object.keys(Object(given?.value)).toSorted()).toEqual(own.toSorted());
  for (const paragraph of text.trim().split("\n\n")) expect(paragraph).toMatch(/^(# .*\n)+\w+:/);
});

it("files cannot take the place of the documents", () => {
  expect(() => rendered({ files: { "documents.yaml": "a" } })).toThrow("files/documents.yaml");
  expect(rendered({ files: { "providers.yaml": "a" } })).not.toEqual([]);
});
