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
 * up, as apimachinery's `resource.ParseQuantity` does.
 */
function parseQuantity(text: string): bigint | undefined {
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

const VERSION = /^v?(\d{1,15}(?:\.\d{1,15}){0,5})(?:-([0-9A-Za-z.-]{1,64}))?(?:\+.*)?$/;

interface Version {
  readonly numbers: readonly number[];
  /** After `-`, as in `1.37.0-rc.1`: before the release itself. */
  readonly pre: string | undefined;
}

/** `v1.36.3`, `5.15.0-91-generic`, `6.8`: numbers by their parts, missing ones as 0; what follows `+` does not count. */
function parseVersion(text: string): Version | undefined {
  const match = text.length > MAX_LENGTH * 2 ? null : VERSION.exec(text);
  if (match === null) return undefined;
  return { numbers: (match[1] ?? "").split(".").map(Number), pre: match[2] };
}

/** Negative, zero or positive; `undefined` when one of the two is not of this kind. */
export function compareAs(kind: "Quantity" | "Version", a: string, b: string): number | undefined {
  if (kind === "Quantity") {
    const [left, right] = [parseQuantity(a), parseQuantity(b)];
    if (left === undefined || right === undefined) return undefined;
    return left < right ? -1 : left > right ? 1 : 0;
  }
  const [left, right] = [parseVersion(a), parseVersion(b)];
  return left === undefined || right === undefined ? undefined : compareVersions(left, right);
}

/** Can the text be compared this way? */
export function isComparable(kind: "Quantity" | "Version", text: string): boolean {
  return (kind === "Quantity" ? parseQuantity(text) : parseVersion(text)) !== undefined;
}

function compareVersions(a: Version, b: Version): number {
  for (let at = 0; at < Math.max(a.numbers.length, b.numbers.length); at++) {
    const order = (a.numbers[at] ?? 0) - (b.numbers[at] ?? 0);
    if (order !== 0) return order;
  }
  if (a.pre === b.pre) return 0;
  if (a.pre === undefined) return 1;
  return b.pre === undefined ? -1 : comparePrereleases(a.pre, b.pre);
}

/** By identifiers as in semver §11: numbers by value and before words, fewer identifiers first. */
function comparePrereleases(a: string, b: string): number {
  const [left, right] = [a.split("."), b.split(".")];
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    const [one, other] = [left[at], right[at]];
    if (one === undefined) return -1;
    if (other === undefined) return 1;
    if (one === other) continue;
    const [oneIsNumber, otherIsNumber] = [/^\d+$/.test(one), /^\d+$/.test(other)];
    if (oneIsNumber && otherIsNumber) return Number(one) - Number(other);
    if (oneIsNumber !== otherIsNumber) return oneIsNumber ? -1 : 1;
    return one < other ? -1 : 1;
  }
  return 0;
}
