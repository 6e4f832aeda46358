import {
  ApiError,
  type ApiFailure,
  type CollectionScope,
  type ConfigMap,
  configMaps,
  type KubeClient,
} from "@berth/kube";
import { clusterName, createSilentLogger, systemClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { createListedInformers, listFrom } from "./listed-informers.ts";

const red: CollectionScope = { labelSelector: "colour=red" };
const objects: readonly ConfigMap[] = ["red", "blue"].map((colour) => ({
  metadata: { name: colour, namespace: "ns", uid: colour, resourceVersion: "1", labels: { colour } },
  data: { value: colour },
}));

/** Reads these scopes with a server that fails for some selectors. What each reader kept, and the lists that it took. */
async function readTogether(
  scopes: readonly CollectionScope[],
  failures: Readonly<Record<string, ApiFailure>> = {},
) {
  const lists: string[] = [];
  const told: string[] = [];
  const pages: KubeClient["pages"] = async function* (_, { labelSelector = "", project } = {}) {
    lists.push(labelSelector);
    const failure = failures[labelSelector];
    if (failure !== undefined) throw new ApiError(failure, { verb: "list", resource: "configmaps" });
    const selected = objects.filter(({ metadata }) => labelSelector === "" || metadata?.name === "red");
    yield { metadata: {}, items: selected.map((it) => project?.(it as never) ?? (it as never)) };
  };
  const informers = createListedInformers({
    fill: listFrom({ pages }),
    cluster: clusterName("c"),
    clock: systemClock,
    onRefused: ({ consequence }) => told.push(consequence ?? ""),
  });
  const stop = new AbortController();
  const readers = scopes.map((scope) => {
    const at = {
      resource: configMaps,
      scope,
      log: createSilentLogger(),
      consequence: scope.labelSelector ?? "all",
    };
    return informers.informer({ ...at, project: ({ metadata }) => ({ metadata }) as ConfigMap });
  });
  const running = readers.map(({ informer }) => informer.start(stop.signal));
  try {
    await informers.settled();
    const kept = readers.map(({ informer, isMissing }) =>
      informer.synced
        ? [...informer.list()].map((it) => `${it.metadata?.name} ${Object.keys(it).join()}`)
        : isMissing,
    );
    return { lists, told, kept };
  } finally {
    stop.abort();
    for (const one of running) await (await one).ended;
  }
}

describe("readers of one command", () => {
  const RED = ["red metadata"];
  it("share the list that includes their scopes, and each keeps its part", async () => {
    expect(await readTogether([red, {}, red])).toEqual({
      lists: [""],
      told: [],
      kept: [RED, ["red metadata", "blue metadata"], RED],
    });
  });

  it("read for themselves what they may, where the shared list is refused", async () => {
    expect(await readTogether([{}, red], { "": { kind: "forbidden" } })).toEqual({
      lists: ["", "colour=red"],
      told: ["all"],
      kept: [false, RED],
    });
  });

  it("know that the server does not have the resource, and are refused nothing", async () => {
    expect(await readTogether([{}], { "": { kind: "notFound" } })).toMatchObject({ told: [], kept: [true] });
  });

  it("pass every other failure to the command", async () => {
    await expect(readTogether([{}, red], { "": { kind: "unreachable" } })).rejects.toThrow(/configmaps/);
  });
});
