import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NEW_YEAR } from "../node/testing/labels.ts";
import {
  type GateState,
  heldAgainBy,
  holdsOf,
  MAX_BOOT,
  MAX_NOTE,
  parseState,
  stateId,
  stringifyState,
} from "./state.ts";

const held = { state: "held", why: "Gated", at: NEW_YEAR } as const;
const instants = fc.integer({ min: 0, max: 4_102_444_800 }).map((seconds) => seconds * 1000);
const states: fc.Arbitrary<GateState> = fc
  .tuple(
    fc.constantFrom(
      { state: "held", why: "Gated" } as const,
      { state: "held", why: "HeldAgain" } as const,
      { state: "released", why: "Released" } as const,
      { state: "released", why: "TimedOut" } as const,
      { state: "released", why: "ReleasedByHand" } as const,
    ),
    fc.record({ at: instants }),
    fc.record(
      {
        boot: fc.string({ minLength: 1, maxLength: MAX_BOOT, unit: "binary" }),
        bootAt: instants,
        note: fc.string({ maxLength: MAX_NOTE, unit: "binary" }),
      },
      { requiredKeys: [] },
    ),
  )
  .map((parts): GateState => Object.assign({}, ...parts));

describe("the state of a hold", () => {
  it("is an annotation of the gate's name", () => {
    expect(stateId("network")).toBe("annotation/gate.berth.dev/network");
    expect(stringifyState({ ...held, boot: "b", bootAt: NEW_YEAR, note: "why" })).toBe(
      '{"v":1,"state":"held","at":"2026-01-01T00:00:00Z","why":"Gated","boot":"b","bootAt":"2026-01-01T00:00:00Z","note":"why"}',
    );
  });

  it("is read as it was written, and written as it was read", () => {
    fc.assert(
      fc.property(states, (state) => {
        const text = stringifyState(state);
        const read = parseState(text);
        expect(read?.note?.length ?? 0).toBeLessThanOrEqual(MAX_NOTE);
        expect(read).toEqual({
          ...state,
          ...(state.note !== undefined && { note: state.note.slice(0, MAX_NOTE) }),
        });
        expect(read && stringifyState(read)).toBe(text);
      }),
    );
  });

  it("is a hold of each gate that has not released the node, again or for the first time", () => {
    const again = stringifyState({ ...held, why: "HeldAgain" });
    const annotations = {
      "gate.berth.dev/network": stringifyState(held),
      "gate.berth.dev/disk": again,
      "gate.berth.dev/done": stringifyState({ ...held, state: "released", why: "Released" }),
      "gate.berth.dev/odd": "{",
      "example.com/network": again,
    };
    const node = { metadata: { annotations } };
    expect(holdsOf(node).map(({ gate, at }) => [gate, at])).toEqual([
      ["network", NEW_YEAR],
      ["disk", NEW_YEAR],
    ]);
    expect(heldAgainBy(node)).toEqual(["disk"]);
    expect(holdsOf({})).toEqual([]);
  });

  it("has a note of at most that length", () => {
    expect(parseState(stringifyState({ ...held, note: "x".repeat(MAX_NOTE + 1) }))?.note).toHaveLength(
      MAX_NOTE,
    );
  });

  it("is read for every text, and becomes canonical by one write", () => {
    const texts = fc.oneof(
      fc.string(),
      fc.json(),
      fc.json().map((json) => `{"v":1,"state":"held",${json.slice(1)}`),
    );
    const dates = fc.oneof(
      fc.string(),
      fc.date().map(String),
      fc.constantFrom("2026", "+010000-01-01T00:00:00Z"),
    );
    const nearly = dates.map((at) => JSON.stringify({ v: 1, state: "held", why: "Gated", at }));
    fc.assert(
      fc.property(fc.oneof(texts, nearly), (text) => {
        const state = parseState(text);
        if (state === undefined) return;
        const written = stringifyState(state);
        const again = parseState(written);
        expect(again && stringifyState(again)).toBe(written);
      }),
    );
  });

  it.each([
    ["nothing", undefined],
    ["no JSON", "{"],
    ["no object", "null"],
    ["a newer version", stringifyState(held).replace('"v":1', '"v":2')],
    ["no time", '{"v":1,"state":"held","why":"Gated"}'],
    ["a time that is none", '{"v":1,"state":"held","why":"Gated","at":"soon"}'],
    ["a state that is not known", stringifyState(held).replace("held", "lost")],
    ["a reason of the other state", stringifyState(held).replace("Gated", "Released")],
    ["far too much", JSON.stringify({ ...held, v: 1, at: "2026", more: "x".repeat(5_000) })],
  ])("%s says nothing", (_, text) => expect(parseState(text)).toBeUndefined());

  it("leaves out what has not the shape that it should", () => {
    const text = JSON.stringify({
      v: 1,
      state: "held",
      why: "Gated",
      at: "2026-01-01",
      boot: 7,
      bootAt: [],
      note: {},
    });
    expect(parseState(text)).toEqual(held);
  });
});
