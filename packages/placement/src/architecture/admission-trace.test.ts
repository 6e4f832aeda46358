import { applyPatch } from "@berth/host";
import { aPod, type PodBuilder } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { traceOfAdmission } from "./admission-trace.ts";
import { type ArchitectureAdmission, admitPod } from "./admit.ts";
import { type KnownImages, sightOf } from "./testing/observations.ts";
import { policiesOf } from "./testing/policies.ts";
import { GATE, gatedBy } from "./testing/specs.ts";

const known: KnownImages = { "team/both": ["amd64", "arm64"], "team/arm": ["arm64"], "team/amd": ["amd64"] };

interface Case {
  readonly mode?: "Taint" | "Affinity" | "Both";
  readonly namespaceLabels?: Readonly<Record<string, string>> | undefined;
}

function contextOf({ mode = "Affinity", ...given }: Case): ArchitectureAdmission {
  const namespaceLabels = "namespaceLabels" in given ? given.namespaceLabels : {};
  return {
    policies: policiesOf({ all: { mode } }).policies,
    namespaceLabels: () => namespaceLabels,
    ownNamespace: "berth-system",
    observations: sightOf(known),
    now: 0,
  };
}

const traceOf = (pod: PodBuilder, given: Case = {}) => traceOfAdmission(contextOf(given), pod.build());

const arm = aPod("p").image("team/arm");
const unknown = aPod("p").image("team/unknown");
const unrestricted = aPod("p").image("team/unknown").annotated({ "berth.dev/architectures": "*" });

describe("what a new pod shows of its admission", () => {
  it.each([
    ["has no affinity, though its image is known", arm],
    ["is not held, though its image is not known", unknown],
    ["can run nowhere, and is neither held nor refused", arm.container("second", "team/amd")],
  ])("a pod that %s was missed", (_, pod) => {
    expect(traceOf(pod)).toBe("missed");
    expect(traceOf(pod, { mode: "Both" })).toBe("missed");
  });

  it.each([
    ["known", arm],
    ["unknown", unknown],
  ])("one that has what admission gives a pod of a %s image was asked about", (_, pod) => {
    const context = contextOf({});
    const object = pod.build();
    const question = { kind: { kind: "Pod" }, operation: "CREATE", object } as const;
    const answer = admitPod(context, question);
    const patch = answer.allowed ? answer.patch : [];
    expect(patch).not.toEqual([]);
    expect(traceOfAdmission(context, applyPatch(object, patch) as typeof object)).toBe("asked");
  });

  it("one that is held is not taken for missed when its image has become known meanwhile", () => {
    expect(traceOf(gatedBy(arm, GATE))).toBe("asked");
  });

  it.each([
    ["may run anywhere", unrestricted, {}],
    ["names its architecture itself", unknown.selecting({ "kubernetes.io/arch": "arm64" }), {}],
    ["is not narrowed by its policy", arm, { mode: "Taint" }],
    ["is in a namespace of the system", arm.in("kube-system"), {}],
    ["is in Berth's own namespace", arm.in("berth-system"), {}],
    ["is in a namespace that is not known yet", arm, { namespaceLabels: undefined }],
    ["is opted out", arm, { namespaceLabels: { "berth.dev/architecture": "ignore" } }],
    ["has a node", arm.on("n1"), {}],
  ] as const)("nothing is told by one that %s", (_, pod, given) => {
    expect(traceOf(pod, given)).toBeUndefined();
  });
});
