/**
 * Converts a zod schema to the structural schema of a CRD, a subset of OpenAPI 3.0 (kubernetes.io/docs,
 * "Specifying a structural schema"). A zod feature without an equivalent throws, and the test that
 * renders all kinds finds it. Leaving it out would make the two schemas accept different documents.
 */
import type { JSONSchemaProps } from "@berth/kube";
import * as z from "zod";

/** Keywords with the same meaning in both schemas, in the order of printing. */
const KEPT = [
  "description",
  "type",
  "format",
  "nullable",
  "enum",
  "default",
  "pattern",
  "minLength",
  "maxLength",
  "minimum",
  "exclusiveMinimum",
  "maximum",
  "exclusiveMaximum",
  "multipleOf",
  "minItems",
  "maxItems",
  "required",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-map-type",
  "x-kubernetes-int-or-string",
  "x-kubernetes-preserve-unknown-fields",
  "x-kubernetes-validations",
] as const;

/** Keywords that the code below converts, or that a CRD does not need: `readOnly` only serves TypeScript. */
const HANDLED = ["$schema", "id", "readOnly", "const", "items", "properties", "additionalProperties"];

const KNOWN: ReadonlySet<string> = new Set([...KEPT, ...HANDLED]);

type Json = Readonly<Record<string, unknown>>;

/** @throws TypeError that names the path when a CRD cannot express the schema. */
export function toStructuralSchema(schema: z.ZodType): JSONSchemaProps {
  const json = z.toJSONSchema(schema, { target: "openapi-3.0", io: "input", reused: "inline" });
  return convert(json, "");
}

function convert(json: Json, path: string): JSONSchemaProps {
  const unknown = Object.keys(json).find((keyword) => !KNOWN.has(keyword));
  if (unknown !== undefined) throw new TypeError(`${path || "the schema"}: a CRD has no ${unknown}`);
  const kept = KEPT.flatMap((keyword) => (Object.hasOwn(json, keyword) ? [[keyword, json[keyword]]] : []));
  return {
    ...(Object.fromEntries(kept) as JSONSchemaProps),
    ...enumOf(json),
    ...safeBounds(json),
    ...arrayOf(json, path),
    ...objectOf(json, path),
  };
}

function enumOf(json: Json): JSONSchemaProps {
  return Object.hasOwn(json, "const") ? { enum: [json["const"]] } : {};
}

/** zod writes the range of every integer type as bounds. In a CRD, the format says it. */
function safeBounds({ type, minimum, maximum, ...json }: Json): JSONSchemaProps {
  if (type !== "integer") return {};
  const int32 = json["format"] === "int32" ? [-(2 ** 31), 2 ** 31 - 1] : [];
  const implied = new Set<unknown>([undefined, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, ...int32]);
  const bounds = Object.entries({ minimum, maximum }).filter(([, bound]) => !implied.has(bound));
  return {
    format: typeof json["format"] === "string" ? json["format"] : "int64",
    ...dropped(["minimum", "maximum"]),
    ...Object.fromEntries(bounds),
  };
}

/** Server-side apply replaces a list as a whole unless the schema says otherwise. */
function arrayOf(json: Json, path: string): JSONSchemaProps {
  if (json["type"] !== "array") return {};
  return {
    ...(!Object.hasOwn(json, "x-kubernetes-list-type") && { "x-kubernetes-list-type": "atomic" }),
    items: convert(json["items"] as Json, `${path}[]`),
  };
}

/** A CRD allows no `additionalProperties: false` with `properties`: the API server handles unknown fields itself. */
function objectOf(json: Json, path: string): JSONSchemaProps {
  const { properties, additionalProperties: others } = json;
  if (properties !== undefined) {
    if (typeof others === "object") throw new TypeError(`${path}: a CRD has either fields or a map`);
    const fields = Object.entries(properties as Readonly<Record<string, Json>>);
    return {
      properties: Object.fromEntries(
        fields.map(([name, field]) => [name, convert(field, `${path}.${name}`)]),
      ),
    };
  }
  return typeof others === "object" ? { additionalProperties: convert(others as Json, `${path}{}`) } : {};
}

function dropped(keywords: readonly string[]): Readonly<Record<string, undefined>> {
  return Object.fromEntries(keywords.map((keyword) => [keyword, undefined]));
}
