import { describe, expect, it } from "vitest";
import { waitContainer } from "../../api/wait-container.ts";
import type { NodeFootprintSpec } from "../document.ts";
import { footprintOf } from "../testing/footprints.ts";
import type { FootprintWait } from "./document.ts";

const plain: NodeFootprintSpec = {
  workloads: [{ podSelector: { matchLabels: { app: "a" } } }],
  node: { label: { key: "example.com/agent" } },
};

function settingsOf(container: FootprintWait["container"], more: NodeFootprintSpec = plain): object {
  const { wait } = footprintOf({ ...more, wait: { inject: "Webhook", port: 80, container } });
  if (wait === undefined) throw new Error("it does not wait");
  const { resources, securityContext } = waitContainer(wait);
  return { ...(resources && { resources }), ...(securityContext && { securityContext }) };
}

const amounts = { cpu: "50m", memory: "32Mi" };
const resources = { requests: amounts, limits: amounts };
const securityContext = {
  allowPrivilegeEscalation: false,
  capabilities: { drop: ["ALL"] },
  runAsNonRoot: true,
  runAsUser: 65_534,
  seccompProfile: { type: "RuntimeDefault" },
};

describe("the container that waits", () => {
  it("has what strict namespaces ask for, and as much as it may use", () => {
    expect(settingsOf(undefined)).toEqual({ resources, securityContext });
  });

  it("has nothing where that is empty", () => {
    expect(settingsOf({ resources: {} })).toEqual({ securityContext });
    expect(settingsOf({ securityContext: {} })).toEqual({ resources });
    expect(settingsOf({ resources: {}, securityContext: {} })).toEqual({});
  });

  it("F-9 has nothing of it with the presets of agent-substrate", () => {
    for (const preset of ["agent-substrate/pr-134", "agent-substrate/owner-uid"] as const) {
      expect(settingsOf(undefined, { preset })).toEqual({});
    }
  });
});
