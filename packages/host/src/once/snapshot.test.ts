import { type ConfigMap, configMaps } from "@berth/kube";
import { clusterName, createSilentLogger, systemClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { parseSnapshot, replayReads, SNAPSHOT_FORMAT, SnapshotGap } from "./snapshot.ts";

const object = (name: string, colour = "red") => ({
  metadata: { name, namespace: "ns", uid: name, labels: { colour } },
});
const view = {
  reader: "things",
  resource: "configmaps/v1",
  scope: { namespace: "ns" },
  objects: [object("a"), object("b", "blue")],
};
const whole = {
  format: SNAPSHOT_FORMAT,
  takenAt: "2026-01-02T03:04:05.000Z",
  server: "https://cluster.test",
  views: [view],
  answers: {
    "who?": { value: "me" },
    "why?": {
      failure: { kind: "forbidden" },
      request: { verb: "get", resource: "pods" },
      message: "get pods is forbidden",
    },
  },
};
const text = (change: object = {}): string => JSON.stringify({ ...whole, ...change });

describe("a file that is no snapshot is refused", () => {
  it.each<[string, string, RegExp]>([
    ["cut off", text().slice(0, -9), /cut off/],
    ["of another form", text({ format: "snapshot/2" }), /snapshot\/2.*reads snapshot\/1/],
    ["of no form", "[]", /format is undefined|expected object/],
    [
      "with a name that a terminal obeys",
      text({ views: [{ ...view, objects: [object("a\u001b[2J")] }] }),
      /^views.0.objects.0.metadata.name: is no name of an object$/,
    ],
    ["with fields that it does not know", text({ secrets: [] }), /secrets/],
    ["without the time", text({ takenAt: "yesterday" }), /^takenAt: /],
  ])("%s", (_, given, why) => {
    expect(() => parseSnapshot(given)).toThrow(why);
  });
});

describe("a command that reads a snapshot", () => {
  const refused: string[] = [];
  const { informers, ask } = replayReads(parseSnapshot(text()), {
    cluster: clusterName("c"),
    clock: systemClock,
    onRefused: ({ name }) => refused.push(name ?? ""),
  });
  const read = async (name: string, scope: object): Promise<readonly string[]> => {
    const project = (it: ConfigMap): ConfigMap => it;
    const { informer } = informers.informer({
      name,
      resource: configMaps,
      scope,
      project,
      log: createSilentLogger(),
    });
    const stop = new AbortController();
    const running = informer.start(stop.signal);
    try {
      await informers.settled();
      return Array.from(informer.list(), ({ metadata }) => metadata?.name ?? "");
    } finally {
      stop.abort();
      await (await running).ended;
    }
  };

  it("gets what a reader held, or a part of it", async () => {
    expect(await read("things", { namespace: "ns" })).toEqual(["a", "b"]);
    expect(await read("things", { namespace: "ns", labelSelector: "colour=blue" })).toEqual(["b"]);
  });

  it("gets the answers and failures that the other command got", async () => {
    const never = (): Promise<never> => Promise.reject(new Error("asked the cluster"));
    expect(await ask("who?", never)).toBe("me");
    await expect(ask("why?", never)).rejects.toThrow("get pods is forbidden");
    expect(await ask<string>("where?", never, "nowhere")).toBe("nowhere");
    await expect(ask("where?", never)).rejects.toThrow(SnapshotGap);
  });

  it("gets an error that names what the snapshot lacks", async () => {
    await expect(read("others", {})).rejects.toThrow("the snapshot does not hold configmaps/v1 for others");
  });
});
