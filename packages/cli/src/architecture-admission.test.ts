import {
  type AdmissionHandle,
  type AdmissionSettings,
  admissionServerSpec,
  bindAdmission,
  createAdmission,
  WEBHOOK,
} from "@berth/host";
import { ApiError, type KubeClient, type Resource } from "@berth/kube";
import {
  type ArchitecturePolicies,
  architectureAdmission,
  architecturePolicySpec,
  berthAs,
  compileArchitecture,
} from "@berth/placement";
import {
  clusterName,
  createMetricsRegistry,
  createSilentLogger,
  createVirtualClock,
  type VirtualClock,
} from "@berth/runtime";
import { describe, expect, it } from "vitest";

const spec = architecturePolicySpec.parse({ mode: "Affinity" });
const policies: ArchitecturePolicies = compileArchitecture({
  sources: [{ source: "config", documents: [{ name: "all", spec, annotations: {} }] }],
});
const answers = {
  architectureOf: () => undefined,
  namespaceLabels: () => ({}),
  ownNamespace: undefined,
  observations: {
    look: ({ image }: { readonly image: string }) => ({ state: "unknown", name: image }) as const,
  },
  onPod: () => undefined,
};

/** On an API server that refuses everything. */
async function setUp(settings: Omit<AdmissionSettings, "spec"> & { readonly mode?: string }): Promise<
  AsyncDisposable & {
    readonly parts: AdmissionHandle;
    readonly clock: VirtualClock;
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
  const rules = bindAdmission(architectureAdmission({ ...answers, now: () => clock.now() }), () => policies);
  const { of, always, elected } = createAdmission(full, {
    client,
    cluster: clusterName("test"),
    ...berthAs("berth"),
    metrics: createMetricsRegistry(),
    log: createSilentLogger(),
    clock,
    members: [{ rules, onChange: () => told.push(parts.state()?.reason) }],
  });
  const parts = of("architecture") as AdmissionHandle;
  const stop = new AbortController();
  const components = [...always, ...elected];
  const running = await Promise.all(components.map((component) => component.start(stop.signal)));
  parts.changed();
  return {
    parts,
    clock,
    told,
    advance: (ms) => clock.advance(ms),
    problems: () => components.flatMap((one) => (one.name === WEBHOOK ? [] : (one.problem?.() ?? []))),
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
    expect(it.parts.state()?.message).toContain("namespace of this installation does not exist");
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
