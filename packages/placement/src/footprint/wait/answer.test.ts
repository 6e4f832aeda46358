/** What is asked of the server before a new pod is answered: as little as can be, for each pod waits for it. */

import { bindAdmission, reviewHandlers } from "@berth/host";
import type { KubeClient, PodSpec } from "@berth/kube";
import { type AdmissionAnswer, createSilentLogger } from "@berth/runtime";
import { aPod } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { ENV } from "../../node/testing/configuration.ts";
import { compileFootprints } from "../compile.ts";
import { nodeFootprintSpec } from "../document.ts";
import type { NeedObservations } from "../needs.ts";
import { waitAdmission } from "./admission.ts";

const spec = nodeFootprintSpec.parse({
  workloads: [
    { podSelector: { matchLabels: { logs: "yes" } }, namespaceSelector: { matchLabels: { team: "a" } } },
    { csiDrivers: ["csi.test"] },
  ],
  node: { label: { key: "test.berth.dev/agent" } },
  wait: { inject: "Webhook", port: 9, container: { name: "wait", image: "registry.test/wait:1" } },
});
const footprints = compileFootprints({
  sources: [{ source: "config", documents: [{ name: "agent", spec }] }],
});

/** Stands for a server that is not to be asked. */
const refuse = (): Promise<never> => Promise.reject(new Error("the server is asked"));
const client: Pick<KubeClient, "list" | "create"> = { list: refuse, create: refuse };

const MOUNTS: PodSpec = {
  containers: [],
  volumes: [{ name: "v", persistentVolumeClaim: { claimName: "c" } }],
};

async function ask(
  observations: Partial<NeedObservations>,
  mounts = false,
): Promise<AdmissionAnswer | undefined> {
  const log = createSilentLogger();
  const seen = { namespaceLabels: () => undefined, driverOfClaim: () => null, ...observations };
  const rules = bindAdmission(waitAdmission({ observations: seen, log }), () => footprints);
  const handlers = reviewHandlers([rules], { client, env: ENV, log });
  const request = {
    uid: "u",
    kind: { group: "", version: "v1", kind: "Pod" },
    resource: { group: "", version: "v1", resource: "pods" },
    operation: "CREATE" as const,
    name: "p",
    namespace: "n",
    object: aPod("p")
      .labelled({ logs: "yes" })
      .with((pod) => (mounts ? { ...pod, spec: MOUNTS } : pod))
      .build(),
    userInfo: {},
    dryRun: false,
  };
  return handlers["/mutate-pod-footprint"]?.(request, new AbortController());
}

const waiting = { allowed: true, patch: [{ op: "add", path: "/spec/initContainers" }] };
const started = { allowed: true, patch: [] };

describe("the server is asked about the namespace of a new pod", () => {
  it("where namespaces are watched and this one was not seen", async () => {
    await expect(ask({ namespaceLabels: () => null })).rejects.toThrow("the server is asked");
  });

  it("but not where it is known", async () => {
    expect(await ask({ namespaceLabels: () => ({ team: "a" }) })).toMatchObject(waiting);
    expect(await ask({ namespaceLabels: () => ({ team: "b" }) })).toEqual(started);
  });

  it("nor where none can be read, which another request per pod would not mend", async () => {
    expect(await ask({ namespaceLabels: () => undefined })).toEqual(started);
  });

  it("nor for what only volumes can tell", async () => {
    const driverOfClaim = (): undefined => undefined;
    for (const labels of [undefined, { team: "b" }])
      expect(await ask({ namespaceLabels: () => labels, driverOfClaim }, true)).toEqual(started);
  });
});
