import { createViews } from "@berth/host";
import { ApiError } from "@berth/kube";
import { clusterName, createSharedInformers, createSilentLogger, systemClock } from "@berth/runtime";
import { expect, it, vi } from "vitest";
import { PR_134_POOLS } from "./deployment.ts";
import { workerPoolReads } from "./reads.ts";

it("says that pools are not served, as long as Berth needs them", async () => {
  const refuse = (): Promise<never> =>
    Promise.reject(new ApiError({ kind: "notFound" }, { verb: "list", resource: "workerpools.ate.dev" }));
  const place = { cluster: clusterName("c"), clock: systemClock };
  const views = createViews(workerPoolReads, {
    ...place,
    informers: createSharedInformers({ ...place, client: { list: refuse, watch: refuse } }),
    log: createSilentLogger(),
  });
  const stop = new AbortController();
  const { ended } = await views.pools.start(stop.signal);
  views.want(PR_134_POOLS);
  await vi.waitFor(() => expect(views.pools.note()).toBe("workerpools.ate.dev is not served"));
  views.want(undefined);
  expect(views.pools.note()).toBeUndefined();
  stop.abort();
  await ended;
});
