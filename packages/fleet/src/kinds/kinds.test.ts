import path from "node:path";
import { toCustomResourceDefinition } from "@berth/host";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { fleetKinds, instanceKind, workloadDeploymentKind, workloadKind } from "./kinds.ts";
import { fullDeployment, fullMachine, fullSandbox, fullWorkload } from "./testing/specs.ts";

/** `kubectl apply` puts the whole document into an annotation (apimachinery, `TotalAnnotationSizeLimitB`). */
const MAX_APPLIED_BYTES = 262_144;

const crds = fleetKinds.map((kind) => ({
  plural: kind.resource.plural,
  crd: toCustomResourceDefinition(kind),
}));

describe("the CRDs of the fleet", () => {
  it.each(crds)("$plural is as reviewed", async ({ plural, crd }) => {
    const text = stringify(crd, { version: "1.1", lineWidth: 0, aliasDuplicateObjects: false });
    await expect(text).toMatchFileSnapshot(path.join(import.meta.dirname, "testdata/crds", `${plural}.yaml`));
  });

  it.each(crds)("$plural fits in what kubectl apply can take, four times", ({ crd }) => {
    expect(JSON.stringify(crd).length).toBeLessThan(MAX_APPLIED_BYTES / 4);
  });

  it.each([
    { what: "a Workload", kind: workloadKind, spec: fullWorkload },
    { what: "a deployment", kind: workloadDeploymentKind, spec: fullDeployment },
    { what: "an Instance of containers", kind: instanceKind, spec: fullSandbox },
    { what: "a virtual machine", kind: instanceKind, spec: fullMachine },
  ])("read from a file all that the types say of $what", ({ kind, spec }) => {
    expect(kind.spec.parse(spec)).toEqual(spec);
  });
});
