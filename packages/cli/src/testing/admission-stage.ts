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
import { berthAs, compileGates, type Gates, gateAdmission, startupGateSpec } from "@berth/placement";
import {
  clusterName,
  createMetricsRegistry,
  createSilentLogger,
  createVirtualClock,
  type VirtualClock,
} from "@berth/runtime";

const spec = startupGateSpec.parse({ signals: { pods: [{}] } });
export const gatesOf = (names: readonly string[], isUnread = false): Gates =>
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
export async function setUp({
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
    ...berthAs("berth"),
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
