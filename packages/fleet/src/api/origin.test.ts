import { describe, expect, it } from "vitest";
import { createSigner, originAnnotations, originOf } from "./origin.ts";

const signer = createSigner(Buffer.alloc(32, 1));
const origin = { hub: "h", sourceUid: "s", epoch: 2, start: 1000 };
const place = { cellUid: "c", namespace: "ns-U", name: "w" };
const annotations = originAnnotations(origin, place, signer);
const made = { metadata: { namespace: "ns-U", name: "w", annotations } };

describe("the origin of a deployment in a cell", () => {
  it("is that which the hub has signed", () => {
    expect(originOf(made, "c", signer)).toEqual({ is: "signed", origin });
  });

  it("is none without the hub", () =>
    expect(originOf({ metadata: {} }, "c", signer)).toEqual({ is: "none" }));

  it.each<[string, object]>([
    ["another epoch", { annotations: { ...annotations, "berth.dev/epoch": "3" } }],
    ["another start", { annotations: { ...annotations, "berth.dev/ordinal-start": "0" } }],
    ["another source", { annotations: { ...annotations, "berth.dev/source-uid": "t" } }],
    ["another hub", { annotations: { ...annotations, "berth.dev/hub-uid": "i" } }],
    ["another name", { name: "v" }],
    ["another namespace", { namespace: "ns-V" }],
    ["no signature", { annotations: { ...annotations, "berth.dev/signature": "" } }],
    [
      "a signature that is no text",
      { annotations: { ...annotations, "berth.dev/signature": { toString: 5 } } },
    ],
    [
      "a longer signature",
      { annotations: { ...annotations, "berth.dev/signature": `${annotations["berth.dev/signature"]}x` } },
    ],
  ])("is forged with %s", (_, metadata) => {
    expect(originOf({ metadata: { ...made.metadata, ...metadata } }, "c", signer).is).toBe("forged");
  });

  it("is none where the server says null", () =>
    expect(originOf({ metadata: { annotations: null as never } }, "c", signer)).toEqual({ is: "none" }));

  it("is forged in another cell, and under another key", () => {
    expect(originOf(made, "d", signer).is).toBe("forged");
    expect(originOf(made, "c", createSigner(Buffer.alloc(32, 2))).is).toBe("forged");
  });

  it("needs a key that is long enough", () =>
    expect(() => createSigner(Buffer.alloc(31))).toThrow(RangeError));
});
