/** What a pod of a template requests of its node, and what many of them do. Pure. */
import type { Container, PodSpec } from "@berth/kube";
import { parseQuantity } from "../../node/quantity.ts";

/** By resource, as Kubernetes writes quantities: `{ cpu: "1500m", memory: "2Gi" }`. */
export type Requests = Readonly<Record<string, string>>;

/** One amount in units of 10⁻⁹, and whether it is counted in powers of 1024. */
interface Amount {
  readonly nano: bigint;
  readonly isBinary: boolean;
}

type Amounts = ReadonlyMap<string, Amount>;

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/** Of what the API server stores; others would make an amount of any size of a few digits. */
const MAX_LENGTH = 32;

/**
 * What `count` pods of the template request together, as the scheduler adds it up: the containers and the init containers
 * that go on beside them, or more while the others start. What is no quantity is left out.
 */
export function requestsOf(spec: PodSpec | undefined, count: number): Requests {
  const total: Record<string, string> = {};
  for (const [resource, { nano, isBinary }] of [...effective(spec)].sort(byResource)) {
    if (nano > 0n) total[resource] = written({ nano: nano * BigInt(count), isBinary });
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
  const nano = text.length > MAX_LENGTH ? undefined : parseQuantity(text);
  return nano === undefined ? undefined : { nano, isBinary: text.endsWith("i") };
}

/** In thousandths where it is not whole, rounded up. */
function written({ nano, isBinary }: Amount): string {
  if (nano % 1_000_000_000n !== 0n) return `${(nano + 999_999n) / 1_000_000n}m`;
  let units = nano / 1_000_000_000n;
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
  return { nano: a.nano + b.nano, isBinary: a.isBinary || b.isBinary };
}

function larger(a: Amount, b: Amount): Amount {
  return a.nano >= b.nano ? a : b;
}

function byResource([a]: readonly [string, Amount], [b]: readonly [string, Amount]): number {
  return a < b ? -1 : 1;
}
