/** Kubernetes resource quantities. Pure; never throws. */

/** Longer than any quantity of the API (int64 with nine decimal places). The limit keeps parsing cheap. */
const MAX_LENGTH = 64;
const MAX_EXPONENT = 30;
const NANO_DIGITS = 9;

const QUANTITY = /^([+-]?)(\d*)(?:\.(\d*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?$/;

type Powers = Readonly<Record<string, number>>;
const DECIMAL: Powers = { n: -9, u: -6, m: -3, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const BINARY: Powers = { Ki: 1, Mi: 2, Gi: 3, Ti: 4, Pi: 5, Ei: 6 };

/**
 * Parses a quantity (`500m`, `16Gi`, `1e3`, plain numbers) to units of 10⁻⁹. Rounds finer digits away from zero, like
 * apimachinery's `resource.ParseQuantity`. Unlike that function, it does not cap binary quantities at 2⁶³-1, and it
 * refuses a sign or a point alone.
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

/** True for a quantity above 0. False for a text that is no quantity. */
export function isPositiveQuantity(text: string): boolean {
  return (parseQuantity(text) ?? 0n) > 0n;
}

/**
 * True when both are the same amount in a workload. The API server rounds up to thousandths
 * (`SetDefaults_ResourceList`, pkg/apis/core/v1). A text that is no quantity equals nothing.
 */
export function isSameQuantity(a: string, b: string): boolean {
  const [one, other] = [a, b].map((text) => {
    const nano = parseQuantity(text);
    return nano && divideUp(nano, 1_000_000n);
  });
  return one !== undefined && one === other;
}
