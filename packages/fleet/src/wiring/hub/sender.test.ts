import type { Intent } from "@berth/host";
import { type ClusterSet, clusterName, createVirtualClock, type ReconcileContext } from "@berth/runtime";
import { expect, it } from "vitest";
import { type WorkloadDeployment, workloadDeployments } from "../../api/workload.ts";
import { onHub } from "../../hub/testing/fixtures.ts";
import { presentClient, Sender } from "./sender.ts";

const [hub, far] = [clusterName("hub"), clusterName("far")];
const { signal } = new AbortController();
const context = { signal, log: { info: () => undefined } } as unknown as ReconcileContext;
const seen: WorkloadDeployment = onHub({ metadata: { resourceVersion: "5" } });

it.each([
  ["its own cluster", hub],
  ["another cluster", far],
])("what was written to %s is not waited for after that was restored from a backup", async (_, to) => {
  const restores = new Map([hub, far].map((it) => [it, 0]));
  const sent: string[] = [];
  const set = {
    subscribe: () => undefined,
    has: () => true,
    get: (name: string) => ({
      restores: restores.get(clusterName(name)),
      events: { record: () => undefined },
      client: {
        server: "https://a",
        patch() {
          sent.push(name);
          return Promise.resolve({ metadata: { resourceVersion: "9" } });
        },
      },
    }),
  } as unknown as ClusterSet;
  const clock = createVirtualClock();
  const sender = new Sender({ host: { clock }, set, resource: workloadDeployments, action: "Test" });
  const change: Intent = {
    do: "patch",
    patch: { type: "merge", body: { spec: {} } },
    reason: "Changed",
    message: "",
    ...(to === far && { on: { resource: workloadDeployments, seen, via: presentClient(set, far) } }),
  };
  const key = { cluster: hub, namespace: "ns-U", name: "w-us-dfw" };
  const send = () => sender.send({ key, object: seen, context }, [change]);
  await send();
  // The view is behind the write.
  expect([(await send()).recheckAfterMs, sent]).toEqual([30_000, [to]]);
  restores.set(to, 1);
  expect([(await send()).recheckAfterMs, sent]).toEqual([undefined, [to, to]]);
});
