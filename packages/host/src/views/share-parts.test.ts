import type { KubeObject } from "@berth/kube";
import { expect, it } from "vitest";
import { keepFields } from "./mask.ts";
import { createSharedParts } from "./share-parts.ts";

interface Thing extends KubeObject {
  readonly spec?: { readonly template?: object; readonly controller?: object };
}

const thing = (name: string, template: object): Thing => ({
  metadata: { name, annotations: { a: name } },
  spec: { template, controller: { name } },
});

it("equal parts of objects are one, also of two kinds, and the objects stay what they are", () => {
  const parts = createSharedParts();
  const paths = ["spec.template", "metadata.annotations", "status", "spec.none.below"];
  const [one, other] = [
    parts.after<Thing>(keepFields(["spec", "metadata.annotations"]), paths),
    parts.after<Thing>((it) => it, paths),
  ];
  const first = one(thing("a", { image: ["x"] }));
  const second = other(thing("b", { image: ["x"] }));
  const third = one(thing("c", { image: ["y"] }));
  expect(second.spec?.template).toBe(first.spec?.template);
  expect(third.spec?.template).not.toBe(first.spec?.template);
  expect(first).toEqual(thing("a", { image: ["x"] }));
  expect(second).toEqual(thing("b", { image: ["x"] }));
  expect(third).toEqual(thing("c", { image: ["y"] }));
  expect(one({})).toEqual({});
});

it("remembers as many parts as it may, the last ones", () => {
  const share = createSharedParts().after<Thing>((it) => it, ["spec.template"]);
  const first = share(thing("a", { at: -1 }));
  for (let at = 0; at < 4095; at++) share(thing("b", { at }));
  expect(share(thing("c", { at: -1 })).spec?.template).toBe(first.spec?.template);
  for (let at = 0; at < 4096; at++) share(thing("d", { at }));
  expect(share(thing("e", { at: -1 })).spec?.template).not.toBe(first.spec?.template);
});
