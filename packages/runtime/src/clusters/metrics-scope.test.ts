import { expect, it } from "vitest";
import { createMetricsRegistry } from "../prometheus.ts";
import { scopeMetrics } from "./metrics-scope.ts";

it("a scope takes its values and its collects with it, and no others", async () => {
  const registry = createMetricsRegistry({ processMetrics: false });
  const samples = async (): Promise<string[]> =>
    (await registry.expose()).body.split("\n").filter((line) => line.startsWith("t_"));
  const labels = ["cluster", "result"] as const;
  const collected: string[] = [];
  const declare = (cluster: string) => {
    const scope = scopeMetrics(registry, { cluster });
    const count = scope.counter({ name: "t_total", help: "h", labels });
    const seen = scope.histogram({ name: "t_seconds", help: "h", labels, buckets: [] });
    scope.gauge({
      name: "t_depth",
      help: "h",
      labels: ["cluster"],
      collect: (gauge) => {
        collected.push(cluster);
        gauge.set(1, { cluster });
      },
    });
    const shared = scope.counter({ name: "t_shared_total", help: "h", labels: ["result"] });
    const count2 = (): void => {
      for (const result of ["good", "bad"]) count.inc({ cluster, result });
      seen.observe(1, { cluster, result: "good" });
      shared.inc({ result: "good" });
    };
    count2();
    return { scope, count: count2 };
  };
  const [one, two] = [declare("one"), declare("two")];
  const before = await samples();
  expect(before.filter((line) => line.includes("one"))).toHaveLength(6);
  one.scope[Symbol.dispose]();
  collected.length = 0;
  one.count();
  expect(await samples()).toEqual(before.filter((line) => !line.includes("one")));
  expect(collected).toEqual(["two"]);
  two.scope[Symbol.dispose]();
  expect(await samples()).toEqual(['t_shared_total{result="good"} 2']);
});
