/** The operations of RFC 6902 that admission uses: `test`, `add`, `replace` and `remove`, on JSON values. */
import { isDeepStrictEqual } from "node:util";
import type { JsonPatchOperation } from "@berth/kube";

/** Returns the patched document as a new value. @throws Error where the API server would refuse the patch. */
export function applyPatch(document: unknown, patch: readonly JsonPatchOperation[]): unknown {
  const root = { "": structuredClone(document) };
  for (const operation of patch) applyTo(root, operation);
  return root[""];
}

function applyTo(root: object, operation: JsonPatchOperation): void {
  const steps = operation.path.split("/").map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = steps.pop() ?? "";
  let parent: unknown = root;
  for (const step of ["", ...steps.slice(1)]) parent = childOf(parent, step);
  if (operation.op === "test") {
    if (!isDeepStrictEqual(childOf(parent, last), operation.value)) throw new Error("a test failed");
  } else if (operation.op === "replace") {
    childOf(parent, last);
    (parent as Record<string, unknown>)[last] = operation.value;
  } else if (operation.op === "add") {
    if (!Array.isArray(parent)) Object.assign(asObject(parent), { [last]: operation.value });
    else if (last === "-") parent.push(operation.value);
    else parent.splice(Number(last), 0, operation.value);
  } else if (operation.op === "remove") {
    childOf(parent, last);
    if (Array.isArray(parent)) parent.splice(Number(last), 1);
    else Reflect.deleteProperty(asObject(parent), last);
  } else throw new Error(`${operation.op} is not known here`);
}

function childOf(parent: unknown, step: string): unknown {
  const object = asObject(parent);
  if (!Object.hasOwn(object, step)) throw new Error(`there is no ${step}`);
  return (object as Record<string, unknown>)[step];
}

function asObject(value: unknown): object {
  if (typeof value !== "object" || value === null) throw new Error("neither an object nor a list");
  return value;
}
