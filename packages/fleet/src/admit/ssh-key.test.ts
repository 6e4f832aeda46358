import { expect, it } from "vitest";
import { isAuthorizedKey } from "./ssh-key.ts";
import { KEY } from "./testing/workloads.ts";

/** Base64 of strings with their lengths in front. */
function wire(...strings: readonly (string | number)[]): string {
  const bytes = strings.map((it) => (typeof it === "string" ? Buffer.from(it) : Buffer.alloc(it)));
  const withLength = (one: Buffer): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(one.length);
    return Buffer.concat([length, one]);
  };
  return Buffer.concat(bytes.map(withLength)).toString("base64");
}
const rsa = wire("ssh-rsa", 4);

it.each<readonly [about: string, text: string, isKey: boolean]>([
  ["a key with a comment", KEY, true],
  ["tabs and more spaces", `\t ssh-rsa \t ${rsa} a b`, true],
  ["a part without bytes", `ssh-rsa ${wire("ssh-rsa", 0)}`, true],
  ["three parts", `ssh-rsa ${wire("ssh-rsa", 3, 128)}`, true],
  ...["ssh-dss", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"].map(
    (type) => [type, `${type} ${wire(type, 8)}`, true] as const,
  ),
  ...["sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"].map(
    (type) => [type, `${type} ${wire(type, 8)}`, true] as const,
  ),
  ["a type that is not known", `ssh-foo ${wire("ssh-foo", 8)}`, false],
  ["a type in front of the type", `x ssh-rsa ${rsa}`, false],
  ["another type inside", `ssh-rsa ${wire("ssh-dss", 4)}`, false],
  ["nothing but the type inside", `ssh-rsa ${wire("ssh-rsa")}`, false],
  ["base64 without its padding", `ssh-rsa ${rsa.replaceAll("=", "")}`, false],
  ["other characters before the base64", `ssh-rsa !!!!${rsa}`, false],
  ["other characters after the base64", `ssh-rsa ${wire("ssh-rsa", 6)}!!!!`, false],
  ["bytes after the last part", `ssh-rsa ${wire("ssh-rsa", 5).slice(0, -4)}`, false],
  ["a key that is longer than OpenSSH reads", `ssh-rsa ${wire("ssh-rsa", 16_384)}`, false],
  ["a type alone", "ssh-rsa", false],
  ["nothing", "", false],
])("of an authorized_keys line: %s", (_, text, isKey) => {
  expect(isAuthorizedKey(text)).toBe(isKey);
});
