import type { Fact, FactRef, ReadFact } from "../facts.ts";

/** `Label/example.com/gpu` */
export function formatFact({ source, key }: FactRef): string {
  return `${source}/${key}`;
}

/** Facts by `Source/key`; what is not there is absent. */
export function factsOf(facts: Readonly<Record<string, Fact>>): ReadFact {
  return (source, key) => facts[formatFact({ source, key })];
}
