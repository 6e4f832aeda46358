/** Random questions to the fact store, and what must not be asked: remembered apart from it, as plainly as can be. */
import * as fc from "fast-check";
import { expect } from "vitest";
import type { FactDemand, ImageFactStoreOptions } from "../fact-question.ts";
import { ImageFactStore } from "../image-facts.ts";
import { parseReference } from "../reference.ts";
import type { RegistryCredential } from "../types.ts";
import { settle } from "./fact-bench.ts";
import { aDigest, ScriptedReader, type ScriptedRequest } from "./scripted-reader.ts";

const IMAGES = `a.io/x:1 a.io/x:2 a.io/y:1 a.io/y:2 a.io/z b.io/x:1 b.io/x@${aDigest("a")}`.split(" ");
/** The first two have the same. */
export const CREDENTIALS: readonly (readonly RegistryCredential[])[] = [
  [{ username: "ada" }],
  [{ username: "ada" }],
  [],
];
/** The shortest time, ms, that each failure keeps the same credentials from being tried again on the same image. */
const STANDS = {
  notFound: 60_000,
  unauthorized: 60_000,
  forbidden: 60_000,
  unreachable: 5_000,
  serverError: 5_000,
  malformed: 60_000,
  noPlatform: 60_000,
  rateLimited: 30_000,
} as const;
export type Kind = keyof typeof STANDS;
const isKind = (text: string): text is Kind => text in STANDS;
export const KINDS: readonly Kind[] = Object.keys(STANDS).filter(isKind);

type Step =
  | { readonly do: "want"; readonly image: number; readonly who: number; readonly always: boolean }
  | { readonly do: "answer"; readonly which: number; readonly digit: string }
  | { readonly do: "fail"; readonly which: number; readonly kind: Kind }
  | { readonly do: "pass"; readonly ms: number };

const which = fc.nat({ max: 20 });
const image = fc.nat({ max: IMAGES.length - 1 });
const ms = fc.constantFrom(1_000, 6_000, 61_000, 301_000, 7 * 3_600_000);
export const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant("want"), image, who: fc.nat({ max: 2 }), always: fc.boolean() }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant("answer"), which, digit: fc.constantFrom("a", "b") }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("fail"), which, kind: fc.constantFrom(...KINDS) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("pass"), ms }) },
  ),
  { maxLength: 80 },
);

/** What must not be asked, and why: remembered apart from the store, as plainly as can be. */
class Ledger {
  readonly #until = new Map<string, number>();

  forbid(key: string, until: number): void {
    this.#until.set(key, Math.max(until, this.#until.get(key) ?? 0));
  }

  /** The promises that this request breaks. */
  broken({ name, credentials }: ScriptedRequest, now: number): readonly string[] {
    const keys = [`fresh ${name}`, `failed ${name} ${JSON.stringify(credentials)}`];
    return keys.filter((key) => now < (this.#until.get(key) ?? 0));
  }

  answered({ name }: ScriptedRequest, now: number): void {
    this.forbid(`fresh ${name}`, now + (name.includes("@") ? Number.POSITIVE_INFINITY : 300_000));
  }

  failed({ name, credentials }: ScriptedRequest, kind: Kind, now: number): void {
    this.forbid(`failed ${name} ${JSON.stringify(credentials)}`, now + STANDS[kind]);
  }
}

export async function run(
  all: readonly Step[],
  options: Partial<ImageFactStoreOptions>,
): Promise<ScriptedReader> {
  const reader = new ScriptedReader();
  const ledger = new Ledger();
  let now = 1_000;
  const clock = (): number => now;
  await using store = new ImageFactStore({ reader, now: clock, monotonic: clock, ...options });
  const bounded = options.maxFacts !== undefined;
  const seen = new Set<ScriptedRequest>();
  const broken: string[] = [];
  const wanted: Promise<void>[] = [];
  /** What was looked up at the moment when it had been waited for. */
  const answers: string[] = [];

  const look = async (): Promise<void> => {
    await settle();
    for (const request of reader.pending) {
      if (!seen.has(request)) broken.push(...ledger.broken(request, now));
      seen.add(request);
    }
    expect([...store.entries()].length).toBeLessThanOrEqual(options.maxFacts ?? 10_000);
  };
  const want = (image: string, who: number, always: boolean): void => {
    const demand: FactDemand = {
      reference: parseReference(image),
      pull: always ? "Always" : "IfNotPresent",
      scope: `scope-${who}`,
      credentials: async () => CREDENTIALS[who] ?? [],
    };
    wanted.push(store.want(demand).then(() => void answers.push(store.look(demand).state)));
  };
  const end = (step: Step & { readonly which: number }): void => {
    const request = reader.pending[step.which % Math.max(1, reader.pending.length)];
    if (request === undefined) return;
    if (step.do === "fail") {
      request.fail(step.kind);
      ledger.failed(request, step.kind, now);
    } else if (step.do === "answer") {
      request.answer(aDigest(step.digit));
      // A tag that has moved is read next, by the same question.
      if (request.kind === "read") ledger.answered(request, now);
    }
  };

  for (const step of all) {
    if (step.do === "want") want(IMAGES[step.image] ?? "", step.who, step.always);
    else if (step.do === "pass") now += step.ms;
    else end(step);
    await look();
  }
  while (reader.pending.length > 0) {
    end({ do: "answer", which: 0, digit: "b" });
    await look();
  }
  // No caller waits for ever, and no caller is refused by an exception.
  await Promise.all(wanted);
  expect(bounded ? [] : broken).toEqual([]);
  expect(bounded ? [] : answers).not.toContain("unknown");
  return reader;
}
