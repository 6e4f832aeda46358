/**
 * From a zod schema to the structural schema of a CRD, the subset of OpenAPI 3.0 that the API server takes
 * (kubernetes.io/docs, "Specifying a structural schema"). A zod feature without an equal there is an exception, seen by
 * the test that renders all kinds, and never left out in silence: the two schemas would no longer accept the same.
 */
import type { JSONSchemaProps } from "@berth/kube";
import * as z from "zod";

/** Keywords that mean the same in both; in the order in which they are printed. */
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
  "x-kubernetes-validations",
] as const;

/** Handled one by one below, or without a meaning in a CRD: `readOnly` says there nothing that TypeScript says. */
const HANDLED = ["$schema", "id", "readOnly", "const", "items", "properties", "additionalProperties"];

const KNOWN: ReadonlySet<string> = new Set([...KEPT, ...HANDLED]);

type Json = Readonly<Record<string, unknown>>;

/** @throws TypeError naming the path when the schema says something that a CRD cannot say. */
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

/** zod bounds every integer by what a double holds exactly; 64 bits are a format of their own here. */
function safeBounds({ type, minimum, maximum, ...json }: Json): JSONSchemaProps {
  if (type !== "integer") return {};
  const bounds = Object.entries({ minimum, maximum }).filter(
    ([, bound]) => typeof bound === "number" && Math.abs(bound) !== Number.MAX_SAFE_INTEGER,
  );
  return {
    format: typeof json["format"] === "string" ? json["format"] : "int64",
    ...dropped(["minimum", "maximum"]),
    ...Object.fromEntries(bounds),
  };
}

/** Lists are replaced as a whole by server-side apply unless their schema says otherwise. */
function arrayOf(json: Json, path: string): JSONSchemaProps {
  if (json["type"] !== "array") return {};
  return {
    ...(!Object.hasOwn(json, "x-kubernetes-list-type") && { "x-kubernetes-list-type": "atomic" }),
    items: convert(json["items"] as Json, `${path}[]`),
  };
}

/** `additionalProperties: false` cannot stand beside `properties`: the API server drops or refuses unknown fields itself. */
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
