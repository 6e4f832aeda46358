import { styleFor } from "@berth/host";
import { expect, it } from "vitest";
import { formatNodeArchitecture } from "./show.ts";

const style = styleFor({ write: () => undefined, isTerminal: false, columns: undefined });
const tainted = { policy: "cluster/p", taint: "supported-arch=arm64:NoSchedule", node: "Tainted" } as const;

it("a node says which of two architectures is used, where they differ", () => {
  const said = formatNodeArchitecture({ ...tainted, label: "amd64" }, style);
  expect(said).toContain("its label kubernetes.io/arch is amd64: the taint follows status.nodeInfo");
  expect(formatNodeArchitecture(tainted, style)).not.toContain("kubernetes.io/arch");
});
