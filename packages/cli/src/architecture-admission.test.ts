import { ApiError, type KubeClient, type Resource } from "@berth/kube";
import { type ArchitecturePolicies, architecturePolicySpec, compileArchitecture } from "@berth/placement";
import { clusterName, createMetricsRegistry, createSilentLogger, createVirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { type ArchitectureAdmissionParts, createArchitectureAdmission } from "./architecture-admission.ts";
import { admissionServerSpec } from "./config/admission-server.ts";
import { type AdmissionSettings, createWebhookServer, type WebhookOwner } from "./webhook-server.ts";

const spec = architecturePolicySpec.parse({ mode: "Affinity" });
const policies: ArchitecturePolicies = compileArchitecture({
  sources: [{ source: "config", documents: [{ name: "all", spec, annotations: {} }] }],
});
const webhooks: WebhookOwner = { handlers: {}, isReady: () => true };

/** On an API server that refuses everything. */
async function setUp(settings: Omit<AdmissionSettings, "spec"> & { readonly mode?: string }): Promise<
  AsyncDisposable & {
    readonly parts: ArchitectureAdmissionParts;
    readonly advance: (ms: number) => Promise<void>;
    readonly told: (string | undefined)[];
    readonly problems: () => readonly string[];
  }
> {
  const clock = createVirtualClock();
  const refuse = (resource: Resource): Promise<never> =>
    Promise.reject(new ApiError({ kind: "forbidden" }, { verb: "list", resource: resource.plural }));
  const client = { get: refuse, list: refuse, watch: refuse, apply: refuse } as unknown as KubeClient;
  const told: (string | undefined)[] = [];
  const { mode = "Auto", ...given } = settings;
  const full = { ...given, spec: admissionServerSpec.parse({ mode }) };
  const common = {
    client,
    installation: "berth",
    metrics: createMetricsRegistry(),
    log: createSilentLogger(),
    clock,
  };
  const parts = createArchitectureAdmission(full, {
    ...common,
    cluster: clusterName("test"),
    policies: () => policies,
    webhook: createWebhookServer(full, { ...common, owners: [webhooks], onChange: () => undefined }),
    webhooks,
    onChange: () => told.push(parts.state()?.reason),
  });
  const stop = new AbortController();
  const running = await Promise.all(parts.elected.map((component) => component.start(stop.signal)));
  parts.policiesChanged();
  return {
    parts,
    told,
    advance: (ms) => clock.advance(ms),
    problems: () => parts.elected.flatMap((component) => component.problem?.() ?? []),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await clock.advance(60_000);
      await Promise.all(running.map(({ ended }) => ended));
    },
  };
}

describe("admission of pods", () => {
  it("is off for a Berth without a namespace, which is no fault", async () => {
    await using it = await setUp({});
    expect(it.parts.state()).toMatchObject({ ready: false, reason: "AdmissionOff" });
    expect(it.parts.state()?.message).toContain("namespace does not exist");
    expect(it.problems()).toEqual([]);
  });

  it("is at fault without one where a webhook was asked for", async () => {
    await using it = await setUp({ mode: "Webhook" });
    await it.advance(10_000);
    expect(it.parts.state()).toMatchObject({ ready: false, reason: "AdmissionFailed" });
    expect(it.problems()).toHaveLength(1);
  });

  it("is told to have failed when it cannot be set up, though nothing else changes", async () => {
    await using it = await setUp({ namespace: "berth-system" });
    expect(it.parts.state()).toBeUndefined();
    await it.advance(9000);
    const before = it.told.length;
    await it.advance(3000);
    expect(it.told.slice(before)).toEqual(["AdmissionFailed"]);
  });
});
