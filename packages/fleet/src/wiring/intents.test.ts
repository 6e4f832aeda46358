import { expect, it } from "vitest";
import { statusTo } from "./intents.ts";

it("a status replaces the stored one: fields that it has no more are removed", () => {
  const body = (stored?: object) => statusTo({ replicas: 1 }, "r", "m", stored);
  expect(body({ replicas: 2, unheard: 1 })).toMatchObject({
    patch: { body: { status: { replicas: 1, unheard: null } } },
  });
  expect(body()).toMatchObject({ patch: { body: { status: { replicas: 1 } } } });
});
