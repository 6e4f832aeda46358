/** The licences under which others' work may be part of what is released. A new one is a decision. */
const LISTED: ReadonlySet<string> = new Set([
  "0BSD",
  "Apache-2.0",
  "BSD-3-Clause",
  "ISC",
  "MIT",
  // Of Debian's packages in the image, unchanged: beside Berth, and not part of it.
  "GPL-2.0-or-later",
  "GPL-2.0-or-later AND MPL-2.0",
  "GPL-3.0-or-later WITH GCC-exception-3.1",
  "LGPL-2.1-or-later",
]);

interface Licensed {
  readonly name: string;
  readonly license?: string | undefined;
}

/** Those that must not be released: `name: licence`. */
export function unlisted(things: readonly Licensed[]): readonly string[] {
  return things
    .filter(({ license = "" }) => !LISTED.has(license))
    .map(({ name, license = "none named" }) => `${name}: ${license}`);
}
