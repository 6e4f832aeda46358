import { describe, expect, it } from "vitest";
import { folderOf, labelsFrom, NEW_YEAR, settle } from "../node/testing/labels.ts";
import { editNode, makeNode } from "../node/testing/world.ts";
import { marksSettled } from "./capability.ts";

const labels = labelsFrom(folderOf({ "accelerators/edgetpu": "usb.present" }));
const isSettled = (node: Parameters<typeof marksSettled>[1]): boolean =>
  marksSettled(labels, node, { installation: "berth", now: NEW_YEAR });
const plugged = makeNode({ labels: { "usb.present": "1" } });

describe("derived labels are settled", () => {
  it("when they stand as the rules want them", () => {
    expect(isSettled(makeNode())).toBe(true);
    expect(isSettled(plugged)).toBe(false);
    expect(isSettled(settle(plugged, [labels]))).toBe(true);
  });

  it("only when none is to be removed", () => {
    expect(isSettled(editNode(settle(plugged, [labels]), { labels: { "usb.present": null } }))).toBe(false);
  });

  it("also where another installation has set another value, for that stays", () => {
    const record = JSON.stringify({
      v: 1,
      by: "other",
      marks: { "label/accelerators/edgetpu": { c: "labels", r: "folder/x", since: "2026-01-01T00:00:00Z" } },
    });
    const node = editNode(plugged, {
      labels: { "accelerators/edgetpu": "theirs" },
      annotations: { "berth.dev/marks": record },
    });
    expect(isSettled(node)).toBe(true);
  });
});
