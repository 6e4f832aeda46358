/** A capability that validates ConfigMaps, which it calls shapes, in a process outside of the cluster. */
import type { KubeClient } from "@berth/kube";
import {
  type AdmissionCause,
  type AdmissionRequest,
  clusterName,
  createMetricsRegistry,
  createSilentLogger,
  Manager,
  systemClock,
} from "@berth/runtime";
import { findFreePort } from "@berth/testcluster";
import type { Installed } from "../../product.ts";
import { type AdmissionHandle, createAdmission } from "../admission.ts";
import { type AdmissionRules, bindAdmission, type InForce, type ReviewIo } from "../rules.ts";
import { admissionServerSpec } from "../settings.ts";

/** The program in tests. */
export const INSTALLED: Installed = {
  product: { name: "berth", domain: "berth.dev" },
  installation: "berth",
};

export interface Shapes extends InForce {
  readonly isOn: boolean;
  /** The only user whose writes are not asked about. */
  readonly except: string;
}

export const NO_CITY: AdmissionCause = {
  reason: "FieldValueRequired",
  message: "Required value",
  field: "data.city",
};

/** A shape has a city. Who names a network must be allowed to use it. Only the API server changes statuses of pods. */
async function validate(
  { object, subResource, namespace = "", userInfo = {} }: AdmissionRequest,
  io: ReviewIo,
): Promise<readonly AdmissionCause[] | "forbidden"> {
  if (subResource === "status") return "forbidden";
  const { city, network } = (object as { readonly data?: Readonly<Record<string, string>> }).data ?? {};
  const causes = city === undefined ? [NO_CITY] : [];
  if (network === undefined) return causes;
  const { username = "", ...user } = userInfo;
  const of = { group: "networking.test", version: "v1", resource: "networks", namespace, name: network };
  const said = await io.accessReview({ ...user, user: username, resourceAttributes: { verb: "use", ...of } });
  if (said.kind === "allowed") return causes;
  return [...causes, { reason: "FieldValueForbidden", message: said.kind, field: "data.network" }];
}

export function shapeRules(
  namespace: string,
  onAsked: (request: AdmissionRequest) => void = () => undefined,
): AdmissionRules<Shapes> {
  return {
    name: "shapes",
    effect: "validate",
    reviews: [
      {
        name: "vshape.kb.io",
        path: "/validate-v1-shape",
        rule: {
          apiGroups: [""],
          apiVersions: ["v1"],
          operations: ["CREATE", "UPDATE"],
          resources: ["configmaps", "pods/status"],
        },
        alone: true,
        failurePolicy: () => "Fail",
        when: ({ isOn, except }) =>
          isOn
            ? {
                timeoutSeconds: 10,
                namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
                matchConditions: [
                  { name: "not-ours", expression: `request.userInfo.username != "${except}"` },
                ],
              }
            : undefined,
        async answer(_, request, io) {
          onAsked(request);
          const said = await validate(request, io);
          if (said === "forbidden") return { allowed: false, message: "only the API server changes it" };
          return said.length === 0 ? { allowed: true } : { allowed: false, causes: said };
        },
      },
    ],
    texts: { asked: "the API server asks about shapes", off: "the API server does not ask about shapes" },
  };
}

export interface RunningShapes extends AsyncDisposable {
  readonly handle: AdmissionHandle;
  set(inForce: Shapes): void;
}

/** Runs until disposed of, at a URL and without a namespace. */
export async function runShapes(
  client: KubeClient,
  rules: AdmissionRules<Shapes>,
  mode: "Auto" | "Webhook",
): Promise<RunningShapes> {
  const port = await findFreePort();
  const address = { bindAddress: `127.0.0.1:${port}`, url: `https://127.0.0.1:${port}` };
  const common = { client, cluster: clusterName("c"), clock: systemClock, log: createSilentLogger() };
  let inForce: Shapes | undefined;
  const admission = createAdmission(
    { spec: admissionServerSpec.parse({ ...address, mode }) },
    {
      ...common,
      ...INSTALLED,
      metrics: createMetricsRegistry(),
      members: [{ rules: bindAdmission(rules, () => inForce), onChange: () => undefined }],
    },
  );
  const handle = admission.of(rules.name);
  if (handle === undefined) throw new Error("it has no handle");
  const stop = new AbortController();
  const { always, elected } = admission;
  const run = new Manager({ ...common, always: [always], elected }).run(stop.signal);
  return {
    handle,
    set(next) {
      inForce = next;
      handle.changed();
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await run;
    },
  };
}
