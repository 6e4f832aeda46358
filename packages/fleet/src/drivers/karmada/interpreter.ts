/** Tells Karmada what the status of a deployment is. Without it the hub never shows one. Pure. */
import { COMPUTE_GROUP, COMPUTE_VERSION } from "../../api/group.ts";
import type { InterpreterCustomization } from "../../api/karmada.ts";
import { canonicalJson } from "../../deployment/template-hash.ts";

/** The same as that of the original: two for one kind are refused. */
export const INTERPRETER = "workloaddeployment";

/** The whole status of a cell. */
const REFLECTION = `function ReflectStatus(observedObj)
  return observedObj.status
end
`;

/** That of the only cell, or the first that has one. Berth itself sums all of them: see `sumOf`. */
const AGGREGATION = `function AggregateStatus(desiredObj, statusItems)
  for _, item in ipairs(statusItems or {}) do
    if item.status ~= nil then
      desiredObj.status = item.status
      return desiredObj
    end
  end
  return desiredObj
end
`;

export const interpreter: InterpreterCustomization & Required<Pick<InterpreterCustomization, "spec">> = {
  apiVersion: "config.karmada.io/v1alpha1",
  kind: "ResourceInterpreterCustomization",
  metadata: { name: INTERPRETER },
  spec: {
    target: { apiVersion: `${COMPUTE_GROUP}/${COMPUTE_VERSION}`, kind: "WorkloadDeployment" },
    customizations: {
      statusReflection: { luaScript: REFLECTION },
      statusAggregation: { luaScript: AGGREGATION },
    },
  },
};

/** A merge patch of what differs. What others customize stays. `undefined`: nothing differs. */
export function interpreterPatch(present: InterpreterCustomization): object | undefined {
  const { target, customizations = {} } = present.spec ?? {};
  const { statusReflection, statusAggregation } = customizations;
  const has = { target, customizations: { statusReflection, statusAggregation } };
  return canonicalJson(has) === canonicalJson(interpreter.spec) ? undefined : { spec: interpreter.spec };
}
