/** What is asked of a server by whom: a Berth without rights, without gates, or that has not read them all yet. */
import {
  type AdmissionHandle,
  type AdmissionServerSpec,
  type AdmissionSettings,
  admissionServerSpec,
  bindAdmission,
  createAdmission,
  WEBHOOK,
} from "@berth/host";
import { ApiError, type KubeClient, type KubeObject, type Resource, type Verb } from "@berth/kube";
import { compileGates, type Gates, gateAdmission, startupGateSpec } from "@berth/placement";
import {
  clusterName,
  createMetricsRegistry,
  createSilentLogger,
  createVirtualClock,
  type VirtualClock,
} from "@berth/runtime";
import { describe, expect, it } from "vitest";

const spec = startupGateSpec.parse({ signals: { pods: [{}] } });
const gatesOf = (names: readonly string[], isUnread = false): Gates =>
  compileGates({
    sources: [{ source: "config", documents: names.map((name) => ({ name, spec })) }],
    unsettled: isUnread ? "reading" : undefined,
  });

interface Stage extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly handle: AdmissionHandle;
  /** Of all components that run, but of the server itself. */
  readonly problems: () => readonly string[];
  /** `list mutatingadmissionpolicies`, in order. */
  readonly requests: string[];
  readonly setGates: (gates: Gates) => void;
  /** The reason that was told last. */
  readonly told: () => string | undefined;
  /** Whether the webhook was asked for: it needs its certificates then. */
  readonly isDemanded: () => boolean;
  /** From now on objects may be applied. */
  readonly grant: () => void;
}

interface Init {
  readonly mode?: AdmissionServerSpec["mode"];
  readonly gates?: Gates;
  /** The right to list and watch. Default false. */
  readonly mayRead?: boolean;
  /** Default true. */
  readonly leads?: boolean;
  /** Names of policies that an earlier process has left. */
  readonly left?: readonly string[];
}

/** Of the server there is only what it refuses, and what was left there. */
async function setUp({
  mode = "Policy",
  gates = gatesOf([]),
  mayRead = false,
  leads = true,
  left = [],
}: Init): Promise<Stage> {
  const clock = createVirtualClock();
  const requests: string[] = [];
  let current = gates;
  const note = (verb: string, { plural }: Resource): void => void requests.push(`${verb} ${plural}`);
  const refuse = (verb: Verb, { plural }: Resource, kind: "forbidden" | "unsupported"): never => {
    throw new ApiError({ kind }, { verb, resource: plural });
  };
  const itemsOf = ({ plural }: Resource): readonly KubeObject[] =>
    plural === "mutatingadmissionpolicies"
      ? left.map((name) => ({ metadata: { name, uid: name, resourceVersion: "1" } }))
      : [];
  const client = {
    read: async () => JSON.stringify({ resources: [{ name: "mutatingadmissionpolicies" }] }),
    list: async (resource: Resource) => {
      note("list", resource);
      return mayRead
        ? { metadata: { resourceVersion: "1" }, items: itemsOf(resource) }
        : refuse("list", resource, "forbidden");
    },
    watch: async (resource: Resource) => {
      note("watch", resource);
      return refuse("watch", resource, mayRead ? "unsupported" : "forbidden");
    },
    get: async (resource: Resource) => {
      note("get", resource);
      return resource.plural === "secrets" ? refuse("get", resource, "forbidden") : {};
    },
    apply: async (resource: Resource, object: KubeObject) => {
      note("apply", resource);
      return isGranted ? object : refuse("patch", resource, "forbidden");
    },
    delete: async (resource: Resource) => note("delete", resource),
  } as unknown as KubeClient;
  const settings: AdmissionSettings = {
    spec: admissionServerSpec.parse({ mode }),
    namespace: "berth-system",
  };
  let told: string | undefined;
  let isGranted = false;
  const admission = createAdmission(settings, {
    client,
    cluster: clusterName("test"),
    installation: "berth",
    metrics: createMetricsRegistry(),
    log: createSilentLogger(),
    clock,
    members: [
      {
        rules: bindAdmission(gateAdmission, () => current),
        onChange: () => void (told = handle.state()?.reason),
      },
    ],
    lease: { namespace: "berth-system", name: "berth" },
  });
  const handle = admission.of("startup-gate") as AdmissionHandle;
  const running = [...admission.always, ...(leads ? admission.elected : [])];
  const stopping = new AbortController();
  const started = await Promise.all(running.map((component) => component.start(stopping.signal)));
  handle.changed();
  return {
    clock,
    handle,
    problems: () => running.flatMap((one) => (one.name === WEBHOOK ? [] : (one.problem?.() ?? []))),
    requests,
    told: () => told,
    isDemanded: () => requests.some((it) => it.endsWith(" secrets")),
    grant: () => void (isGranted = true),
    setGates(next) {
      current = next;
      handle.changed();
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await clock.advance(60_000);
      await Promise.all(started.map(({ ended }) => ended));
    },
  };
}

describe("without gates", () => {
  it.each(["Auto", "Policy", "Off"] as const)(
    "and without rights nothing is watched, and hardly anything asked (%s)",
    async (mode) => {
      await using stage = await setUp({ mode });
      await stage.clock.advance(20 * 60_000);
      expect(stage.requests.filter((it) => it.startsWith("watch"))).toEqual([]);
      expect(stage.requests.length).toBeLessThanOrEqual(10);
    },
  );

  it("what an earlier process has left is deleted, but not before all gates have been read", async () => {
    await using stage = await setUp({ gates: gatesOf([], true), mayRead: true, left: ["berth-gate-net"] });
    await stage.clock.advance(20_000);
    expect(stage.requests.filter((it) => it.startsWith("delete"))).toEqual([]);
    stage.setGates(gatesOf([]));
    await stage.clock.advance(1000);
    expect(stage.requests).toContain("delete mutatingadmissionpolicies");
  });
});

describe("with gates", () => {
  it("a right that is missing to see the policies is said, as they are not written either", async () => {
    await using stage = await setUp({ gates: gatesOf(["net"]) });
    await stage.clock.advance(20_000);
    expect(stage.handle.state()).toMatchObject({ ready: false, reason: "AdmissionFailed" });
    expect(stage.handle.state()?.message).toContain("mutatingadmissionpolicies");
  });

  it("I-5 never claims a policy that is refused, and says within seconds that it is refused or accepted", async () => {
    await using stage = await setUp({ gates: gatesOf(["net"]), mayRead: true });
    const said = new Set<string | undefined>();
    for (let second = 0; second < 12; second++) {
      await stage.clock.advance(1000);
      said.add(stage.handle.state()?.reason);
    }
    expect([...said]).toEqual([undefined, "AdmissionFailed"]);
    expect(stage.handle.state()?.message).toContain("mutatingadmissionpolicies");
    expect(stage.told()).toBe("AdmissionFailed");
    stage.grant();
    await stage.clock.advance(8000);
    expect(stage.told()).toBe("AdmissionByPolicy");
  });

  it("I-1 uses the webhook with Auto when policies are refused", async () => {
    await using stage = await setUp({ mode: "Auto", gates: gatesOf(["net"]), mayRead: true });
    await stage.clock.advance(3000);
    expect(stage.isDemanded()).toBe(true);
  });

  it("I-1 serves the webhook that another replica, the leader, has fallen back to", async () => {
    await using stage = await setUp({ mode: "Auto", gates: gatesOf(["net"]), leads: false });
    await stage.clock.advance(14_000);
    expect(stage.isDemanded()).toBe(false);
    await stage.clock.advance(1000);
    expect(stage.isDemanded()).toBe(true);
    expect(stage.problems()).toEqual([]);
  });

  it("no right is missed where nothing is to be put on new nodes", async () => {
    await using stage = await setUp({ mode: "Off", gates: gatesOf(["net"]) });
    await stage.clock.advance(20_000);
    expect(stage.handle.state()).toMatchObject({ ready: false, reason: "AdmissionOff" });
    expect(stage.problems()).toEqual([]);
  });
});
