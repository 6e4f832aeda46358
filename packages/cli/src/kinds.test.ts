import path from "node:path";
import type { JSONSchemaProps } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { crds, foreignKinds, servedKinds } from "./kinds.ts";

/** What kubectl apply can take: the last applied document goes into an annotation of at most 256 KiB. */
const MAX_DOCUMENT_BYTES = 200_000;

/** Paths of the fields of a schema without a description. What items and values of maps are, is said of their field. */
function undescribed({ properties = {}, items, additionalProperties }: JSONSchemaProps): readonly string[] {
  const fields = Object.entries(properties).flatMap(([name, field]) => {
    const inner = undescribed(field).map((it) => `.${name}${it}`);
    return field.description ? inner : [`.${name}`].concat(inner);
  });
  const within = [items, additionalProperties].flatMap((it) =>
    typeof it === "object" ? undescribed(it as JSONSchemaProps) : [],
  );
  return [...fields, ...within];
}

const all = crds(foreignKinds());

describe("crds", () => {
  it.each(all.map((crd) => ({ crd, plural: crd.spec.names.plural })))(
    "$plural is as reviewed",
    async ({ plural, crd }) => {
      const text = stringify(crd, { version: "1.1", lineWidth: 0, aliasDuplicateObjects: false });
      await expect(text).toMatchFileSnapshot(
        path.join(import.meta.dirname, "testdata/crds", `${plural}.yaml`),
      );
    },
  );

  it("each fit into what kubectl apply can take", () => {
    for (const crd of all) expect(JSON.stringify(crd).length).toBeLessThan(MAX_DOCUMENT_BYTES);
  });

  it("say of every field what it is, for kubectl explain", () => {
    const bare = all.flatMap(({ spec }) =>
      spec.versions.flatMap(({ schema }) =>
        undescribed(schema?.openAPIV3Schema ?? {}).map((field) => `${spec.names.plural}${field}`),
      ),
    );
    expect(bare).toEqual([]);
  });

  it("share no name", () => {
    const names = servedKinds.flatMap(({ resource: { plural, kind }, singular, shortNames }) =>
      [plural, kind, singular].concat(shortNames),
    );
    expect(new Set(names).size).toBe(names.length);
  });
});
