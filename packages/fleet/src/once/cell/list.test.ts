import type { Condition } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { aCondition } from "../../deployment/testing/fixtures.ts";
import { cellLine, formatCells } from "./list.ts";

const NOW_MS = Date.parse("2026-01-01T00:05:00Z");

const lineOf = (conditions?: readonly Condition[], more: object = {}, status: object = {}) =>
  cellLine({
    metadata: { name: "dfw-01" },
    spec: { city: "DFW", uid: "uid-1", secretRef: { name: "s" }, ...more },
    ...(conditions && { status: { conditions, ...status } }),
  });

const heard = aCondition("Reachable", "True", "Heard");
const silent = aCondition("Reachable", "False", "Silent", "no answer for 8s");
const accepting = aCondition("Accepting", "True", "Accepting");
const away = { since: "2026-01-01T00:00:00Z" };

describe("a line about a Cell", () => {
  it.each<[string, ReturnType<typeof lineOf>, object]>([
    ["nothing looked at it", lineOf(), { reachable: "Unknown", accepting: "Unknown", reason: "" }],
    ["it is well", lineOf([heard, accepting]), { reachable: "True", accepting: "True", reason: "" }],
    [
      "it is silent",
      lineOf([silent, aCondition("Accepting", "False", "CellUnreachable")], {}, away),
      { reachable: "False", accepting: "False", reason: "Silent", message: "no answer for 8s", ...away },
    ],
    [
      "it takes nothing new",
      lineOf([heard, aCondition("Accepting", "False", "ApiMissing")]),
      { reachable: "True", accepting: "False", reason: "ApiMissing" },
    ],
    [
      "it is forgotten",
      lineOf([silent], { forgotten: true }),
      { reachable: "False", reason: "CellForgotten", forgotten: true },
    ],
    [
      "its credential ends",
      lineOf([heard, accepting, aCondition("CredentialExpiring", "True", "CredentialExpires", "ends at")]),
      { reachable: "True", reason: "CredentialExpires", message: "ends at" },
    ],
    [
      "it has orphans",
      lineOf([heard, accepting], {}, { orphans: { count: 2, names: [] } }),
      { reason: "Orphaned", message: "2 orphans: `berth cell list --orphans`", orphans: 2 },
    ],
  ])("says that %s", (_, line, expected) => {
    expect(line).toMatchObject(expected);
  });

  it("is a row, with the time since the cell was heard", () => {
    const text = formatCells([lineOf([silent], {}, away), lineOf([heard, accepting])], NOW_MS);
    expect(text).toMatchInlineSnapshot(`
      "NAME     CITY   REACHABLE   ACCEPTING   UNHEARD   REASON   MESSAGE
      dfw-01   DFW    False       Unknown     5m        Silent   no answer for 8s
      dfw-01   DFW    True        True
      "
    `);
  });
});
