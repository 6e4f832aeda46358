import { CarryOut, earliest } from "@berth/host";
import { ApiError, type ApiFailure } from "@berth/kube";
import { createSilentLogger, createVirtualClock } from "@berth/runtime";
import { expect, it } from "vitest";
import { instances } from "../api/workload.ts";
import { decideInstance } from "../instance/decide.ts";
import { aView, BORN } from "../instance/testing/views.ts";
import { statusTo } from "./intents.ts";

/** Stores the status of an Instance that waits for quota, 90 s old, and the server answers with this failure. */
async function store(failure: ApiFailure): Promise<number | undefined> {
  const refuse = () => Promise.reject(new ApiError(failure, { verb: "patch", resource: "instances" }));
  const client = { patch: refuse, apply: refuse, delete: refuse, create: refuse };
  const carryOut = new CarryOut({ client, clock: createVirtualClock(), action: "RunInstance" });
  const down = { is: "failed", reason: "QuotaBackendUnavailable", message: "503" } as const;
  const view = aView({ nowMs: BORN + 90_000, quota: down });
  const { status = {}, recheckAfterMs } = decideInstance(view);
  const subject = { resource: instances, object: view.instance };
  const context = { signal: new AbortController().signal, log: createSilentLogger() };
  const sent = await carryOut.send("i", subject, [statusTo(status, "PendingQuota", "")], context);
  return earliest(sent.recheckAfterMs, recheckAfterMs);
}

it("R8b a conflict of versions is no error, and the Instance is looked at within its tier", async () => {
  expect(await store({ kind: "conflict", causes: [] })).toBeLessThanOrEqual(15_000);
});

it("R8b any other failure still is one", async () => {
  await expect(store({ kind: "serverError", status: 500 })).rejects.toThrow(/patch instances/);
});
