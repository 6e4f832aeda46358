import { events, nodes } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { ObservedRequest, Reply } from "../fault/interceptor.ts";
import { parseRequestTarget } from "../fault/request-target.ts";
import { createPerturbation } from "./perturbation.ts";
import type { Point } from "./point.ts";

const OF_NODE = "/api/v1/nodes/run-7-n1";
const EVENT = "/apis/events.k8s.io/v1/namespaces/default/events";

function trialOf(point?: Point) {
  let kills = 0;
  const perturbation = createPerturbation({
    ...(point && { point }),
    resources: [nodes],
    toLocal: (name) => (name.startsWith("run-7-") ? name.slice(6) : ""),
    sentinelResource: nodes,
    ownStatusOf: [],
    unperturbed: [events],
    isSentinel: (_resource, name) => name === "sentinel",
    changesOf: () => 0,
    kill: () => {
      kills += 1;
    },
    onChange: () => undefined,
  });
  const { signal } = new AbortController();
  const done: Reply = { kind: "answer", status: 200, headers: {}, body: "" };
  return {
    perturbation,
    /** How often the controller was killed. */
    kills: () => kills,
    patch: async (path: string): Promise<Reply> => {
      const target = parseRequestTarget("PATCH", path);
      const request: ObservedRequest = { ...target, sequence: 1, userAgent: "", at: 0, signal };
      return (await perturbation.request?.(request, () => Promise.resolve(done))) ?? done;
    },
  };
}

describe("a perturbation", () => {
  it("kills at its request, once", async () => {
    const { kills, patch, perturbation } = trialOf({ pattern: "kill-before", request: "patch nodes n1 #2" });
    const replies = [await patch(OF_NODE), await patch(OF_NODE), await patch(OF_NODE)];
    expect(replies.map(({ kind }) => kind)).toEqual(["answer", "cut", "answer"]);
    expect(kills()).toBe(1);
    expect(perturbation.reached).toBe(true);
  });

  it("counts neither requests about the sentinel nor those that are left alone", async () => {
    const { patch, perturbation } = trialOf();
    for (const path of [OF_NODE, "/api/v1/nodes/run-7-sentinel", EVENT, `${EVENT}/run-7-n1.17a4`])
      await patch(path);
    expect(perturbation.footprint.requests).toEqual(["patch nodes n1 #1"]);
  });

  it("never kills at a request that is left alone, whatever it is asked to do", async () => {
    const request = "patch events.events.k8s.io n1 #1";
    const { kills, patch, perturbation } = trialOf({ pattern: "kill-after", request });
    expect((await patch(`${EVENT}/run-7-n1.17a4`)).kind).toBe("answer");
    expect(kills()).toBe(0);
    expect(perturbation.reached).toBe(false);
  });
});
