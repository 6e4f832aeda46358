import { anImage, OTHER_REGISTRY_USER, REGISTRY_USER, startRegistry } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { platformText } from "./platform.ts";
import { parseReference } from "./reference.ts";
import { createWorld, failureOf, listing } from "./testing/client-world.ts";

const anonymous = { credentials: [] } as const;
const { name: username, password } = REGISTRY_USER;

describe("a real registry", () => {
  it.each([
    ["an OCI index", anImage("team/app:1").platforms("linux/amd64", "linux/arm/v7"), 1],
    ["an OCI manifest", anImage("team/app:1").platforms("linux/arm64"), 2],
    ["a Docker list", anImage("team/app:1").platforms("linux/amd64", "linux/s390x").docker(), 1],
    ["a Docker manifest", anImage("team/app:1").platforms("linux/arm64").docker(), 2],
    [
      "an index with all",
      anImage("team/app:1").withAttestation().withArtifact().withoutPlatform("linux/arm64"),
      1,
    ],
  ] as const)("A-P6 gives %s", async (_name, image, requests) => {
    await using registry = await startRegistry();
    await using world = createWorld(listing(registry));
    const pushed = await registry.push(image);
    const expected = image.build().platforms.map(platformText);
    for (const name of [pushed.reference, pushed.pinned]) {
      const facts = await world.read(parseReference(name), anonymous);
      expect(facts.digest).toBe(pushed.digest);
      expect(facts.platforms.map(platformText)).toEqual(expected);
      expect(await world.digestOf(parseReference(name), anonymous)).toBe(pushed.digest);
    }
    expect(world.requests).toHaveLength(2 * (requests + 1));
  });

  it("A-P6 has its say where there is nothing to run", async () => {
    await using registry = await startRegistry();
    await using world = createWorld(listing(registry));
    const chart = await registry.push(anImage("team/chart:1").asArtifact());
    const read = (name: string) => failureOf(world.read(parseReference(name), anonymous));
    expect((await read(chart.reference)).kind).toBe("noPlatform");
    expect((await read(`${registry.host}/team/chart:2`)).kind).toBe("notFound");
    expect((await read(`${registry.host}/team/none:1`)).kind).toBe("notFound");
    await registry.stop();
    expect((await read(chart.reference)).kind).toBe("unreachable");
    await registry.start();
    expect((await read(chart.reference)).kind).toBe("noPlatform");
  });

  it("A-B4 lets in those it knows, by https with an authority of its own", async () => {
    await using registry = await startRegistry({ tls: true, users: [REGISTRY_USER] });
    const ca = registry.ca ?? "";
    await using world = createWorld({ endpoints: { [registry.host]: { ca } } });
    const { reference, digest } = await registry.push(anImage("team/app:1").platforms("linux/arm64"));
    const name = parseReference(reference);
    const other = { username: OTHER_REGISTRY_USER.name, password: OTHER_REGISTRY_USER.password };
    expect(await world.read(name, { credentials: [other, { username, password }] })).toMatchObject({
      digest,
    });
    expect((await failureOf(world.read(name, anonymous))).kind).toBe("unauthorized");
    expect((await failureOf(world.read(name, { credentials: [other] }))).kind).toBe("unauthorized");
  });
});
