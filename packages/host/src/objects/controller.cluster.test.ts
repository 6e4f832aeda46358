/** A whole controller on a real API server: what it decides, what it sends, and what it tells. */
import { configMaps, type KubeObject } from "@berth/kube";
import {
  clusterName,
  createInformer,
  createSilentLogger,
  type EventInput,
  Manager,
  systemClock,
} from "@berth/runtime";
import { eventually, sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import { createObjectController } from "./controller.ts";

const TEAM = "host.test/team";

it("gives each object what it lacks by one patch, puts back what is taken off, and forgets what is gone", async () => {
  const { client } = await sharedTestCluster();
  const cluster = clusterName("c");
  const common = { client, cluster, clock: systemClock, log: createSilentLogger() };
  const informer = createInformer({ ...common, resource: configMaps });
  const events: EventInput[] = [];
  const gone: string[] = [];
  const controller = createObjectController({
    ...common,
    informer,
    name: "labels",
    resource: configMaps,
    action: "LabelConfig",
    events: { record: (event) => events.push(event) },
    decide({ metadata: { name = "", labels = {} } = {} }) {
      if (!name.startsWith("objects-") || labels[TEAM] !== undefined) return undefined;
      const patch = { type: "merge", body: { metadata: { labels: { [TEAM]: "none" } } } } as const;
      const message = `it has no label ${TEAM}`;
      return { intents: [{ do: "patch", patch, reason: "LabelMissing", message, announce: "Normal" }] };
    },
    gone: ({ name }) => void gone.push(name),
  });
  const stop = new AbortController();
  const run = new Manager({ ...common, always: [[informer]], elected: [controller] }).run(stop.signal);
  await using _run = {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await run;
    },
  };
  const name = "objects-a";
  const of = { namespace: "default", name };
  const read = (): Promise<KubeObject> => client.get(configMaps, of);
  const isLabelled = (): Promise<void> =>
    eventually(async () => expect((await read()).metadata?.labels).toHaveProperty([TEAM], "none"));
  await client.create(configMaps, { metadata: of }, of);
  await isLabelled();
  const labels = { [TEAM]: null };
  await client.patch(configMaps, of, { type: "merge", body: { metadata: { labels } } });
  await isLabelled();
  // The server shows a change before its answer has come.
  await eventually(() =>
    expect(events).toMatchObject([
      { reason: "LabelMissing", action: "LabelConfig", regarding: { kind: "ConfigMap", name } },
      { reason: "LabelMissing" },
    ]),
  );
  await client.delete(configMaps, of);
  await eventually(() => expect(gone).toEqual([name]));
});
