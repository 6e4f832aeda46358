/** What a pod of a template requests of its node, and what many of them do. Pure. */
import type { Container, PodSpec } from "@berth/kube";

/** By resource, as Kubernetes writes quantities: `{ cpu: "1500m", memory: "2Gi" }`. */
export type Requests = Readonly<Record<string, string>>;

/** One amount in thousandths, and whether it is counted in powers of 1024. */
interface Amount {
  readonly milli: bigint;
  readonly isBinary: boolean;
}

type Amounts = ReadonlyMap<string, Amount>;

const DECIMAL: Readonly<Record<string, number>> = { m: 0, "": 3, k: 6, M: 9, G: 12, T: 15, P: 18, E: 21 };
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/** As the API server stores quantities: whole digits and a suffix (`resource.Quantity`, canonical form). */
const CANONICAL = /^(\d{1,24})(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$/;

/**
 * What `count` pods of the template request together, as the scheduler adds it up: the containers and the init containers
 * that go on beside them, or more while the others start. A resource with an amount that is not in canonical form, or is
 * finer than a thousandth, is left out.
 */
export function requestsOf(spec: PodSpec | undefined, count: number): Requests {
  const total: Record<string, string> = {};
  for (const [resource, { milli, isBinary }] of [...effective(spec)].sort(byResource)) {
    if (milli > 0n) total[resource] = canonical({ milli: milli * BigInt(count), isBinary });
  }
  return total;
}

function effective(spec: PodSpec | undefined): Amounts {
  let beside: Amounts = new Map();
  let most: Amounts = new Map();
  for (const container of spec?.initContainers ?? []) {
    const own = amountsOf(container);
    if (container.restartPolicy === "Always") beside = combined(beside, own, sum);
    else most = combined(most, combined(beside, own, sum), larger);
  }
  let all: Amounts = beside;
  for (const container of spec?.containers ?? []) all = combined(all, amountsOf(container), sum);
  // What the pod asks for as a whole counts instead of what its containers do.
  return new Map([...combined(all, most, larger), ...amountsOf(spec ?? {})]);
}

/** A container without a request asks for its limit; templates are stored without that. */
function amountsOf({ resources }: Pick<Container, "resources">): Amounts {
  const amounts = new Map<string, Amount>();
  for (const [resource, text] of Object.entries({ ...resources?.limits, ...resources?.requests })) {
    const amount = parse(text);
    if (amount !== undefined) amounts.set(resource, amount);
  }
  return amounts;
}

function parse(text: string): Amount | undefined {
  const [, digits, suffix = ""] = CANONICAL.exec(text) ?? [];
  if (digits === undefined) return undefined;
  const power = BINARY.indexOf(suffix);
  if (power > 0) return { milli: BigInt(digits) * 1000n * 1024n ** BigInt(power), isBinary: true };
  return { milli: BigInt(digits) * 10n ** BigInt(DECIMAL[suffix] ?? 0), isBinary: false };
}

function canonical({ milli, isBinary }: Amount): string {
  if (milli % 1000n !== 0n) return `${milli}m`;
  let units = milli / 1000n;
  let power = 0;
  if (isBinary) {
    for (; units % 1024n === 0n && power < BINARY.length - 1; power += 1) units /= 1024n;
  }
  return `${units}${BINARY[power] ?? ""}`;
}

function combined(a: Amounts, b: Amounts, by: (x: Amount, y: Amount) => Amount): Amounts {
  const all = new Map(a);
  for (const [resource, amount] of b) {
    const other = all.get(resource);
    all.set(resource, other === undefined ? amount : by(other, amount));
  }
  return all;
}

function sum(a: Amount, b: Amount): Amount {
  return { milli: a.milli + b.milli, isBinary: a.isBinary || b.isBinary };
}

function larger(a: Amount, b: Amount): Amount {
  return a.milli >= b.milli ? a : b;
}

function byResource([a]: readonly [string, Amount], [b]: readonly [string, Amount]): number {
  return a < b ? -1 : 1;
}
