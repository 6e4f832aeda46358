/** Orders values that are written as text: resource quantities and versions. */

/** More digits than any quantity of the API (int64 with nine places), and few enough to be cheap. */
const MAX_LENGTH = 64;
const MAX_EXPONENT = 30;
const NANO_DIGITS = 9;

const QUANTITY = /^([+-]?)(\d*)(?:\.(\d*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?$/;

const DECIMAL: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};
const BINARY: Readonly<Record<string, number>> = { Ki: 1, Mi: 2, Gi: 3, Ti: 4, Pi: 5, Ei: 6 };

/**
 * A quantity as Kubernetes writes it (`500m`, `16Gi`, `1e3`, plain numbers), in units of 10⁻⁹. Finer digits are rounded
 * away from zero, as apimachinery's `resource.ParseQuantity` does. Unlike there, binary ones are not capped at 2⁶³-1,
 * and a sign or a point alone is no number.
 */
export function parseQuantity(text: string): bigint | undefined {
  const match = text.length > MAX_LENGTH ? null : QUANTITY.exec(text);
  if (match === null) return undefined;
  const [, sign, whole = "", fraction = "", suffix = "", exponent = "0"] = match;
  if (whole === "" && fraction === "") return undefined;
  const decimal = (DECIMAL[suffix] ?? 0) + Number(exponent);
  if (Math.abs(decimal) > MAX_EXPONENT) return undefined;
  const digits = BigInt(`${whole}${fraction}`) * 1024n ** BigInt(BINARY[suffix] ?? 0);
  const shift = NANO_DIGITS + decimal - fraction.length;
  const magnitude = shift >= 0 ? digits * 10n ** BigInt(shift) : divideUp(digits, 10n ** BigInt(-shift));
  return sign === "-" ? -magnitude : magnitude;
}

function divideUp(value: bigint, by: bigint): bigint {
  return (value + by - 1n) / by;
}

/** Is it some, and not none? False for a text that is no quantity. */
export function isPositiveQuantity(text: string): boolean {
  return (parseQuantity(text) ?? 0n) > 0n;
}

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
  const match = text.length > MAX_LENGTH * 2 ? null : VERSION.exec(text);
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
