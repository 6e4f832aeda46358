/** Orders values that are written as text: resource quantities and versions. */
import { parseQuantity } from "@berth/runtime";

/** Longer texts are not versions. The limit keeps parsing cheap. */
const MAX_LENGTH = 128;

const VERSION =
  /^(?:[a-z0-9-]{1,32}:\/\/)?v?(\d{1,15}(?:\.\d{1,15}){0,5})(?:-([0-9A-Za-z._~-]{1,64}))?(?:\+.*)?$/;

interface Version {
  readonly numbers: readonly number[];
  /** The words and numbers after `-`; empty for none. */
  readonly suffix: readonly string[];
  /** The version comes before its release, as `1.37.0-rc.1` does. */
  readonly isPrerelease: boolean;
}

/**
 * Parses versions of kubelets, kernels, distributions and container runtimes (`containerd://2.1.4`). Missing numbers
 * are 0. The text after `+` does not count. A suffix that begins with one of the words below is a prerelease. Any other
 * (`-gke.100`, `-91-generic`, `-427.el9_4.x86_64`) is a build of the release. Semver would call it a prerelease, too.
 * Then `Ge 5.15` would not hold for the kernel `5.15.0-91-generic`.
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

/** Negative, zero or positive for a text below, equal to or above the bound; `undefined` when it does not parse. */
export type Comparator = (text: string) => number | undefined;

/** @returns `undefined` when `bound` does not parse. It is parsed once because every node is compared with it. */
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

/** A prerelease is before its release. A build equals a version without a build; two builds compare by suffix. */
function compareVersions(a: Version, b: Version): number {
  for (let at = 0; at < Math.max(a.numbers.length, b.numbers.length); at++) {
    const order = (a.numbers[at] ?? 0) - (b.numbers[at] ?? 0);
    if (order !== 0) return order;
  }
  if (a.isPrerelease !== b.isPrerelease) return a.isPrerelease ? -1 : 1;
  if (a.suffix.length === 0 || b.suffix.length === 0) return 0;
  return compareSuffixes(a.suffix, b.suffix);
}

/** Compares part by part as semver §11 does: numbers by value, numbers before words, fewer parts first. */
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
