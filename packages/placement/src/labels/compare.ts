/** Orders values that are written as text: resource quantities and versions. */

import { parseQuantity } from "../node/quantity.ts";

/** More characters than any version has, and few enough to be cheap. */
const MAX_LENGTH = 128;

const VERSION =
  /^(?:[a-z0-9-]{1,32}:\/\/)?v?(\d{1,15}(?:\.\d{1,15}){0,5})(?:-([0-9A-Za-z._~-]{1,64}))?(?:\+.*)?$/;

interface Version {
  readonly numbers: readonly number[];
  /** The words and numbers after `-`; empty for none. */
  readonly suffix: readonly string[];
  /** Before the release itself, as `1.37.0-rc.1` is. */
  readonly isPrerelease: boolean;
}

/**
 * Versions of kubelets, kernels, distributions and container runtimes (`containerd://2.1.4`): numbers by their parts, missing ones as 0; what follows `+` does not
 * count. A suffix that begins with one of these words stands for a prerelease. Any other (`-gke.100`, `-91-generic`,
 * `-427.el9_4.x86_64`) names a build of the release, which semver would take for a prerelease as well: `Ge 5.15` would
 * not hold for the kernel `5.15.0-91-generic`.
 */
function parseVersion(text: string): Version | undefined {
  const match = text.length > MAX_LENGTH ? null : VERSION.exec(text);
  if (match === null) return undefined;
  const [, numbers = "", suffix = ""] = match;
  return {
    numbers: numbers.split(".").map(Number),
    suffix: suffix.match(/\d+|[A-Za-z]+/g) ?? [],
    isPrerelease: /^(?:alpha|beta|rc|pre|preview|dev|snapshot)(?![a-z])/i.test(suffix),
  };
}

/** How a text is ordered towards the one given: negative, zero or positive; `undefined` when it is not of this kind. */
export type Comparator = (text: string) => number | undefined;

/** @returns `undefined` when `bound` is not of this kind. It is read once, as a comparison is made for every node. */
export function comparatorTo(kind: "Quantity" | "Version", bound: string): Comparator | undefined {
  if (kind === "Quantity") {
    const right = parseQuantity(bound);
    if (right === undefined) return undefined;
    return (text) => {
      const left = parseQuantity(text);
      return left === undefined ? undefined : left < right ? -1 : left > right ? 1 : 0;
    };
  }
  const right = parseVersion(bound);
  if (right === undefined) return undefined;
  return (text) => {
    const left = parseVersion(text);
    return left && compareVersions(left, right);
  };
}

/** A prerelease is before its release. A build equals a version that names none, and is compared with other builds. */
function compareVersions(a: Version, b: Version): number {
  for (let at = 0; at < Math.max(a.numbers.length, b.numbers.length); at++) {
    const order = (a.numbers[at] ?? 0) - (b.numbers[at] ?? 0);
    if (order !== 0) return order;
  }
  if (a.isPrerelease !== b.isPrerelease) return a.isPrerelease ? -1 : 1;
  if (a.suffix.length === 0 || b.suffix.length === 0) return 0;
  return compareSuffixes(a.suffix, b.suffix);
}

/** Part by part as in semver §11: numbers by value and before words, fewer parts first. */
function compareSuffixes(a: Version["suffix"], b: Version["suffix"]): number {
  for (let at = 0; at < Math.max(a.length, b.length); at++) {
    const [one, other] = [a[at], b[at]];
    if (one === undefined) return -1;
    if (other === undefined) return 1;
    const [oneIsNumber, otherIsNumber] = [/^\d/.test(one), /^\d/.test(other)];
    if (oneIsNumber !== otherIsNumber) return oneIsNumber ? -1 : 1;
    const order = oneIsNumber ? Number(BigInt(one) - BigInt(other)) : one < other ? -1 : one > other ? 1 : 0;
    if (order !== 0) return order;
  }
  return 0;
}
