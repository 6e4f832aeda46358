import type { Secret } from "@berth/kube";
import { createVirtualClock, type Logger } from "@berth/runtime";
import { expect, it } from "vitest";
import { HUB } from "../../hub/testing/fixtures.ts";
import type { Planes } from "./planes.ts";
import { SIGNING_KEY, SigningKey } from "./signing-key.ts";
import { hub } from "./testing/hub-world.ts";
import { Objects } from "./testing/objects.ts";

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const KEY = base64("k".repeat(32));

/** @param identity `undefined`: the hub was not probed yet. */
function signingKey(data: Secret["data"], identity: string | undefined = HUB): SigningKey {
  const secrets = new Objects<Secret>(hub);
  if (data !== undefined) secrets.set({ metadata: { namespace: "home", name: SIGNING_KEY }, data });
  const set = { get: () => (identity === "" ? undefined : { identity }) };
  const planes = {
    own: { set, name: hub },
    hub: { set, name: hub },
    views: { secrets: secrets.view, hub: { deployments: new Objects(hub).view } },
  } as unknown as Planes;
  return new SigningKey({ planes, home: "home", clock: createVirtualClock(), log: {} as Logger });
}

it.each([
  ["its own hub", { key: KEY, hub: base64(HUB) }, HUB, true],
  ["no hub that it knows of", { key: KEY }, HUB, true],
  ["another hub", { key: KEY, hub: base64("other") }, HUB, false],
  ["a hub that was not read yet", { key: KEY, hub: base64(HUB) }, "", false],
  ["its own hub, and is too short", { key: base64("k"), hub: base64(HUB) }, HUB, false],
])("a key for %s", (_what, data, identity, signs) => {
  expect(signingKey(data, identity).signer !== undefined).toBe(signs);
});

it("says which hub it is for when another one answers", () => {
  expect(signingKey({ key: KEY, hub: base64("other") }).problem()).toBe(
    "the hub is hub-uid, and Secret berth-fleet-signing is of hub other: connect Berth to that one, or take the key hub out of the Secret",
  );
  expect(signingKey({ key: KEY, hub: base64(HUB) }).problem()).toBeUndefined();
});
