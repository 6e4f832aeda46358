/** For tests of the fact store: time, questions and answers in the hands of the test. */
import type { FactAnswer, FactDemand, ImageFactStoreOptions, PullPolicy } from "../fact-question.ts";
import { ImageFactStore } from "../image-facts.ts";
import { parseReference } from "../reference.ts";
import type { RegistryCredential } from "../types.ts";
import { ScriptedReader, type ScriptedRequest } from "./scripted-reader.ts";

/** The wall clock when a bench begins. */
export const START: number = Date.UTC(2026, 0, 1);
export const SECOND: number = 1_000;
export const MINUTE: number = 60_000;
export const HOUR: number = 3_600_000;

/** A store over a scripted reader, with clocks that a test moves. */
export interface Bench extends AsyncDisposable {
  readonly reader: ScriptedReader;
  readonly store: ImageFactStore;
  readonly told: string[];
  readonly outcomes: string[];
  look(image: string, about?: About): FactAnswer;
  want(image: string, about?: About): Promise<void>;
  /** Wants, has the request that follows ended as said, and waits. */
  ask(image: string, end: (request: ScriptedRequest) => void, about?: About): Promise<void>;
  /** Wants, has it answered with a digest, and waits. */
  learn(image: string, digest: string, architectures?: readonly string[]): Promise<void>;
  pass(ms: number): void;
}

/** Of a question; default `IfNotPresent`, of the scope and namespace `team`, without credentials. */
export interface About {
  readonly pull?: PullPolicy;
  readonly scope?: string;
  readonly namespace?: string;
  readonly credentials?: readonly RegistryCredential[] | (() => Promise<readonly RegistryCredential[]>);
}

/** The clocks stand still until `pass`; random is 0. */
export function bench(options: Partial<ImageFactStoreOptions> = {}): Bench {
  const reader = new ScriptedReader();
  let passed = 0;
  const outcomes: string[] = [];
  const store = new ImageFactStore({
    reader,
    now: () => START + passed,
    // Not the wall clock's numbers, and not from zero either.
    monotonic: () => 777 + passed,
    random: () => 0,
    observer: { asked: (outcome) => outcomes.push(outcome) },
    ...options,
  });
  const told: string[] = [];
  store.subscribe((name) => told.push(name));
  const demand = (
    image: string,
    { pull = "IfNotPresent", scope = "team", namespace = scope, credentials = [] }: About,
  ): FactDemand => ({
    reference: parseReference(image),
    pull,
    scope,
    namespace,
    credentials: typeof credentials === "function" ? credentials : async () => credentials,
  });
  const bench: Bench = {
    reader,
    store,
    told,
    outcomes,
    look: (image, about = {}) => store.look(demand(image, about)),
    want: (image, about = {}) => store.want(demand(image, about)),
    async ask(image, end, about) {
      const wanted = bench.want(image, about);
      await asked(reader);
      end(reader.next());
      await wanted;
    },
    learn: (image, digest, architectures) =>
      bench.ask(image, (request) => request.answer(digest, architectures)),
    pass: (ms) => {
      passed += ms;
    },
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
  return bench;
}

/** Until the promises that are settled already have had their say. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 100; turn += 1) await Promise.resolve();
}

/** Until something is on its way. */
export async function asked(reader: ScriptedReader): Promise<void> {
  await settle();
  if (reader.pending.length === 0) throw new Error("nothing was asked");
}
