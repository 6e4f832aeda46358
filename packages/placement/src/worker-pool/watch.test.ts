import { ApiError } from "@berth/kube";
import { clusterName, createSharedInformers, createSilentLogger, systemClock } from "@berth/runtime";
import { expect, it, vi } from "vitest";
import { WorkerPoolWatch } from "./watch.ts";

it("says that pools are not served, as long as Berth needs them", async () => {
  const refuse = (): Promise<never> =>
    Promise.reject(new ApiError({ kind: "notFound" }, { verb: "list", resource: "workerpools.ate.dev" }));
  const place = { cluster: clusterName("c"), clock: systemClock };
  const watch = new WorkerPoolWatch({
    ...place,
    informers: createSharedInformers({ ...place, client: { list: refuse, watch: refuse } }),
    log: createSilentLogger(),
    onPool: () => undefined,
  });
  const stop = new AbortController();
  const { ended } = await watch.start(stop.signal);
  watch.want(true);
  await vi.waitFor(() => expect(watch.note()).toBe("workerpools.ate.dev is not served"));
  watch.want(false);
  expect(watch.note()).toBeUndefined();
  stop.abort();
  await ended;
});
