/** Rules about `spec.template`, without what its `spec` runs. */
import { fromTime } from "@berth/runtime";
import { COMPUTE_GROUP } from "../api/group.ts";
import { annotations } from "../api/keys.ts";
import type { Faults } from "./fault.ts";
import { Field } from "./field.ts";
import { isAuthorizedKey } from "./ssh-key.ts";

/** SSH keys of a virtual machine: one `username:key` a line. */
export function* sshKeyFaults(template: Field): Faults {
  if (!template.get("spec").get("runtime").get("virtualMachine").isSet) return;
  const { value } = template.get("metadata").get("annotations").key(annotations.sshKeys);
  // The path of the original, without `metadata`.
  const keys = new Field(`${template.path}.annotations[${annotations.sshKeys}]`, value);
  if (!keys.isSet) {
    yield keys.required();
    return;
  }
  for (const [at, line] of keys.text.trim().split("\n").entries()) {
    const field = new Field(`${keys.path}[${at}]`, line.trim());
    const colon = field.text.indexOf(":");
    if (colon < 0) {
      yield field.invalid("must be in the format 'username:key'");
      continue;
    }
    if (colon === 0) yield field.required("must specify a username");
    if (!isAuthorizedKey(field.text.slice(colon + 1)))
      yield field.invalid("the key must be one of authorized_keys: type, base64 and a comment");
  }
}

const GIVEN: ReadonlySet<string> = new Set([annotations.sshKeys, annotations.restartedAt]);

/** What Berth sets itself is not for users. */
export function* ownedFaults(template: Field): Faults {
  const metadata = template.get("metadata");
  for (const map of [metadata.get("labels"), metadata.get("annotations")])
    for (const key of map.keys)
      if (key.startsWith(`${COMPUTE_GROUP}/`) && !GIVEN.has(key))
        yield map.key(key).forbidden("the keys of this group are set by compute");
  const restartedAt = metadata.get("annotations").key(annotations.restartedAt);
  if (restartedAt.isSet && fromTime(restartedAt.text) === undefined)
    yield restartedAt.invalid("must be a time of RFC 3339, such as 2026-01-31T12:00:00Z");
  for (const name of ["controller", "location"]) {
    const field = template.get("spec").get(name);
    if (field.isSet) yield field.forbidden("is set by compute");
  }
}
