/** The forms of names. */
import type { Faults } from "./fault.ts";
import type { Field } from "./field.ts";

/** What is wrong with a name. `undefined`: nothing. */
export type NameForm = (name: string) => string | undefined;

/** `IsDNS1123Label` (k8s.io/apimachinery/pkg/util/validation). */
export const dnsLabel: NameForm = (name) =>
  name.length <= 63 && /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/.test(name)
    ? undefined
    : "must be a lowercase RFC 1123 label: at most 63 lower case letters, digits and '-', with a letter or digit at both ends";

/** `IsValidPortName` (k8s.io/apimachinery/pkg/util/validation): a service name of IANA (RFC 6335). */
export const portName: NameForm = (name) =>
  name.length <= 15 && /^(?=.*[a-z])(?!.*--)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/.test(name)
    ? undefined
    : "must be a service name: at most 15 lower case letters, digits and single '-', with a letter, and no '-' at an end";

/** A name that a list needs once. */
export function* nameFaults(name: Field, seen: Set<string>, form: NameForm = dnsLabel): Faults {
  if (name.text === "") {
    yield name.required();
    return;
  }
  const problem = form(name.text);
  if (problem !== undefined) yield name.invalid(problem);
  yield* name.unique(seen);
}
