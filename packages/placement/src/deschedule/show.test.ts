import { styleFor } from "@berth/host";
import { expect, it } from "vitest";
import type { PodForecast } from "./forecast.ts";
import { formatDescheduling, formatEvictions } from "./show.ts";

const style = styleFor({ write: () => undefined, isTerminal: false, columns: undefined });
const stays: PodForecast = {
  pod: "default/b",
  node: "n1",
  policy: "config/default",
  reason: "NoOtherNode",
  message: "it is lost; none",
  after: "5m",
};
const goes: PodForecast = {
  ...stays,
  pod: "default/a",
  reason: "PodDescheduled",
  message: "it is lost",
  step: 1,
};

it("D-F26 shows in order which pods go and where to, then which stay and why", () => {
  expect(formatEvictions([stays, { ...goes, to: "n2" }, { ...goes, pod: "default/c", step: 2 }], style)).toBe(
    [
      "2 pods would be evicted, in this order:",
      "  1.   default/a   n1 -> n2         after 5m   it is lost   config/default",
      "  2.   default/c   n1 -> any node   after 5m   it is lost   config/default",
      "1 pod would stay on a wrong node:",
      "  default/b   n1   NoOtherNode: it is lost; none   config/default",
      "",
    ].join("\n"),
  );
});

it("D-F27 shows the first of very many, and how many more there are", () => {
  const text = formatEvictions(
    Array.from({ length: 1_000 }, () => stays),
    style,
  );
  expect(text).toMatch(/\n {2}and \d+ more\n$/);
  expect(text.split("\n").length).toBeLessThan(200);
});

it("D-F28 shows what each policy says of a pod", () => {
  const said = { policy: "config/default", state: "Stays", reason: "PodProtected", message: "no" } as const;
  expect(formatDescheduling([said, { ...said, state: "Fits", policy: "cluster/b" }], style)).toEqual([
    "descheduling config/default\n  state   Stays: PodProtected: no\n",
    "descheduling cluster/b\n  state   Fits: PodProtected: no\n",
  ]);
});
