import { styleFor } from "@berth/host";
import { describe, expect, it } from "vitest";
import type { FootprintExplanation } from "./explain.ts";
import type { AgentForecast, FootprintChanges } from "./forecast/forecast.ts";
import type { FootprintEffects } from "./held-once.ts";
import { formatFootprint, formatFootprintEffects, formatFootprintPlan, formatPodFootprints } from "./show.ts";

const style = styleFor({ write: () => undefined, isTerminal: false, columns: undefined });

const named = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `n${at}`);
const settled: FootprintChanges = {
  footprint: "cluster/atelet",
  goesOn: false,
  label: "ate.dev/atelet=true",
  nodes: 48,
  needed: 1,
  unknown: 0,
  gain: [],
  lose: [],
};
const agent: AgentForecast = {
  daemonSet: "ate-system/atelet",
  follows: true,
  problems: [],
  unserved: [],
  saved: named(47),
};
const planned = (part: Partial<FootprintChanges> = {}): readonly string[] =>
  formatFootprintPlan([{ ...settled, ...part }], style)
    .trimEnd()
    .split("\n");

describe("the plan of a footprint", () => {
  it("is one line where nothing changes", () => {
    expect(planned()).toEqual(["cluster/atelet: 1 of 48 nodes needs its agent."]);
    expect(planned({ nodes: 1, needed: 0 })).toEqual(["cluster/atelet: 0 of 1 node need its agent."]);
  });

  it("names the nodes that gain the agent and those that lose it, the first five, and when", () => {
    const [line] = planned({ needed: 7, gain: named(7), lose: ["n8", "n9"], delayMs: 120_000 });
    expect(line).toBe(
      "cluster/atelet: 7 of 48 nodes need its agent; the label would be set on 7 (n0, n1, n2, n3, n4, …) " +
        "and would be removed from 2 (n8, n9) after 2m.",
    );
  });

  it("speaks of the label, which alone is certain", () => {
    const changes = { gain: ["n1"], lose: ["n2"] };
    expect(planned(changes)[0]).toContain(
      "; the label would be set on 1 (n1) and would be removed from 1 (n2).",
    );
    expect(planned({ lose: ["n2"] })[0]).toContain("; the label would be removed from 1 (n2).");
  });

  it("says that a document has a fault and its footprint goes on", () => {
    expect(planned({ goesOn: true })[1]).toBe(
      "  Its document has a fault: it stays in force as it was before.",
    );
  });

  it("says on which nodes the pods of a DaemonSet would end that is made to ask for the label", () => {
    const selector = { ends: ["n1", "n2"] };
    const saved: AgentForecast["saved"] = [];
    const line = "  DaemonSet ate-system/atelet would be made to ask for ate.dev/atelet=true";
    expect(planned({ agent: { ...agent, saved, selector } })[1]).toBe(
      `${line}: its pods on 2 nodes (n1, n2) would end at once`,
    );
    const none = { ends: [] };
    expect(planned({ agent: { ...agent, saved, selector: none } })[1]).toBe(line);
    const waits = "berth does not know yet whether 1 node needs it";
    expect(planned({ agent: { ...agent, saved, selector: { ...selector, waits } } })[1]).toBe(
      `  DaemonSet ate-system/atelet is not made to ask for ate.dev/atelet=true yet: ${waits}`,
    );
  });

  it("says of how many nodes it is not known, and that what stands there stays", () => {
    expect(planned({ unknown: 3 })[0]).toBe(
      "cluster/atelet: 1 of 48 nodes needs its agent. 3 nodes not known yet: berth changes nothing there.",
    );
  });

  it("counts what is saved, and what would be once the agent follows the label", () => {
    const saved = "its pod on 47 nodes (n0, n1, n2, n3, n4, …)";
    expect(planned({ agent })[1]).toBe(`  ate-system/atelet saves ${saved}`);
    expect(planned({ agent: { ...agent, follows: false } })[1]).toBe(
      `  ate-system/atelet would save, once it follows the label, ${saved}`,
    );
    const one = { ...agent, saved: ["n1"] };
    expect(planned({ agent: one })[1]).toBe("  ate-system/atelet saves its pod on 1 node (n1)");
    expect(planned({ agent: { ...agent, saved: [] } })).toHaveLength(1);
  });

  it("says what is wrong with the agent, and of the first 20 nodes why it cannot run there", () => {
    const unserved = named(22).map((node) => ({
      node,
      reason: "AgentUnschedulable" as const,
      message: "a taint",
    }));
    const problems = [{ reason: "AgentPriority" as const, message: "it has none" }];
    const lines = planned({
      agent: { ...agent, saved: [], problems, unserved },
    });
    expect(lines.slice(1, 4)).toEqual([
      "  AgentPriority: it has none",
      "  These nodes need it, and it cannot run there:",
      "    n0    AgentUnschedulable: a taint",
    ]);
    expect(lines.slice(-2)).toEqual(["    n19   AgentUnschedulable: a taint", "    and 2 more"]);
  });
});

describe("the objects beside nodes", () => {
  const shown = (owners: FootprintEffects["owners"]): readonly string[] =>
    formatFootprintEffects({ owners }).split("\n").slice(0, -1);

  it("are named with what would become of them, and none is a line of its own", () => {
    expect(shown([])).toEqual([]);
    expect(shown([{ owner: "workerpools.ate.dev demo/pool", finalizer: "x.test/hold" }])).toEqual([
      "workerpools.ate.dev demo/pool: the finalizer x.test/hold would be put on",
    ]);
  });

  it("are listed up to the first 20 of a kind", () => {
    const owners = named(23).map((owner) => ({ owner, finalizer: "x.test/hold" }));
    expect(shown(owners).slice(-2)).toEqual([
      "n19: the finalizer x.test/hold would be put on",
      "and 3 more owners",
    ]);
  });
});

const idle: FootprintExplanation = {
  footprint: "cluster/atelet",
  phase: "Idle",
  label: "ate.dev/atelet=true",
  pods: [],
  claims: [],
};
const explained = (part: Partial<FootprintExplanation> = {}): readonly string[] =>
  formatFootprint({ ...idle, ...part }, style)
    .trimEnd()
    .split("\n")
    .map((line) => line.replace(/ {3,}/g, " | "));

describe("a footprint on one node", () => {
  it("is shown with what stands, in quotes, so that an empty value is seen", () => {
    expect(explained()).toEqual([
      "footprint cluster/atelet",
      "  phase | Idle: no pod needs the agent",
      "  label | ate.dev/atelet=true: not set",
    ]);
    expect(explained({ standing: "" })[2]).toBe('  label | ate.dev/atelet=true: set to ""');
  });

  it("tells of each pod what it means, and that they could not be read", () => {
    const pods: FootprintExplanation["pods"] = [
      { pod: "a/counts", is: "Counts", group: "A" },
      { pod: "b/alone", is: "Counts" },
      { pod: "c/open", is: "Unknown" },
      { pod: "d/orphan", is: "Ownerless" },
      { pod: "e/forged", is: "Refused", why: "it has no owner" },
    ];
    expect(explained({ phase: "Needed", pods }).slice(3)).toEqual([
      "  pod a/counts | needs the agent, for A",
      "  pod b/alone | needs the agent",
      "  pod c/open | not known yet: its owner, namespace or volumes have not been read",
      "  pod d/orphan | has lost its owner, and counts until the pod ends",
      "  pod e/forged | does not count: it has no owner",
    ]);
    expect(explained({ phase: "Unknown", pods: undefined }).slice(1)).toEqual([
      "  phase | Unknown: berth changes nothing until it is known",
      "  label | ate.dev/atelet=true: not set",
      "  pods | not known: they could not be read",
    ]);
  });

  it("lists the first 20 pods, and the first five of a claim", () => {
    const pods = named(22).map((name) => ({ pod: `a/${name}`, is: "Counts" as const }));
    const lines = explained({ pods });
    expect(lines.slice(3, -1)).toHaveLength(20);
    expect(lines.at(-1)).toBe("  pods | and 2 more");
    const by = named(6);
    expect(explained({ claims: [{ key: "c.A", stands: true, pods: by }] })[3]).toBe(
      "  claim c.A | by n0, n1, n2, n3, n4, …",
    );
  });

  it("says of a claim whether it is written, and that nobody is behind it", () => {
    const claims = [
      { key: "c.A", stands: false, pods: ["a/one"] },
      { key: "c.B", stands: true, pods: [] },
    ];
    expect(explained({ claims }).slice(3)).toEqual([
      "  claim c.A | by a/one, not written yet",
      "  claim c.B | by no known pod",
    ]);
  });

  it("ends with the agent, and why it cannot run there", () => {
    const daemonSet = "ate-system/atelet";
    expect(explained({ agent: { daemonSet } }).at(-1)).toBe(`  agent | ${daemonSet}`);
    expect(explained({ agent: { daemonSet, problem: "a taint" } }).at(-1)).toBe(
      `  agent | ${daemonSet}: a taint`,
    );
  });
});

describe("the footprints of one pod", () => {
  it("are one line each, and nothing without any", () => {
    expect(formatPodFootprints([], style)).toEqual([]);
    const node = { name: "n1", phase: "Pending", label: "x.test/a=true" } as const;
    const [block = ""] = formatPodFootprints(
      [
        { footprint: "cluster/a", is: "Counts", group: "A", node },
        { footprint: "cluster/b", is: "Ignored", why: "no workload takes it" },
      ],
      style,
    );
    expect(block.split("\n").map((line) => line.replace(/ {3,}/g, " | "))).toEqual([
      "footprints",
      "  cluster/a | needs the agent, for A; on n1, x.test/a=true: not set (Pending)",
      "  cluster/b | does not count: no workload takes it",
      "",
    ]);
  });
});
