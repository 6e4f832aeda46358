import { expect, it } from "vitest";
import { instanceKind, workloadDeploymentKind, workloadKind } from "./kinds.ts";
import { fullDeployment, fullMachine, fullSandbox, fullWorkload } from "./testing/specs.ts";

it.each([
  { what: "a Workload", kind: workloadKind, spec: fullWorkload },
  { what: "a deployment", kind: workloadDeploymentKind, spec: fullDeployment },
  { what: "an Instance of containers", kind: instanceKind, spec: fullSandbox },
  { what: "a virtual machine", kind: instanceKind, spec: fullMachine },
])("a file may say all that the types say of $what", ({ kind, spec }) => {
  expect(kind.spec.parse(spec)).toEqual(spec);
});
