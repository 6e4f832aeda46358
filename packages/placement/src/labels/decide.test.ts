import { describe, expect, it } from "vitest";
import { comeTrue, type Look } from "./testing/history.ts";

type Files = Readonly<Record<string, string | undefined>>;
const look = (files: Files, edit: Look[1], labels: Look[2], effects?: Look[3]): Look =>
  effects === undefined ? [{ files }, edit, labels] : [{ files }, edit, labels, effects];

const OR = { out: "ns.example.com/p\nq\nr" };
const x = { x: "1" };
const out = { out: "true" };

describe("label rules on one node", () => {
  it.each<[string, ...Look[]]>([
    [
      "L-P1 sets the label where the first line stands",
      look(OR, { "ns.example.com/p": "1" }, { "ns.example.com/p": "1", ...out }),
    ],
    ["L-P1 sets the label where the last line stands", look(OR, { r: "true" }, { r: "true", ...out })],
    [
      "L-P2 clears the label when what it depends on is gone",
      look(OR, { q: "1", other: "x" }, { q: "1", other: "x", ...out }),
      look(OR, { q: null }, { other: "x" }, ["remove label/out InputGone"]),
    ],
    ["L-P3 writes nothing to a node that matches no rule", look(OR, { other: "x" }, { other: "x" }, [])],
    ["L-P3 writes nothing to a node without labels", look(OR, {}, {}, [])],
    [
      "L-P4, L-P8 sets what a new file or line asks for",
      look({ a: "y" }, x, x),
      look({ a: "y\nx", b: "x" }, {}, { ...x, a: "true", b: "true" }),
    ],
    [
      "L-P5, L-P7, L-P8 clears the label of a deleted, renamed or narrowed file",
      look({ a: "x", b: "x", c: "x" }, x, { ...x, a: "true", b: "true", c: "true" }),
      look({ "ns/a": "x", c: "y" }, {}, { ...x, "ns/a": "true" }, [
        "remove label/a RuleGone",
        "remove label/b RuleGone",
        "remove label/c InputGone",
        "add label/ns/a RuleMatched",
      ]),
    ],
    [
      "L-P6 sets and clears the labels of a whole namespace",
      look({ "ns/a": "x", "ns/b": "x", keep: "x" }, x, {
        ...x,
        "ns/a": "true",
        "ns/b": "true",
        keep: "true",
      }),
      look({ keep: "x" }, {}, { ...x, keep: "true" }),
    ],
    [
      "L-P9 sets the label back to true when it is deleted or changed by hand",
      look(OR, { q: "1" }, { q: "1", ...out }),
      look(OR, { out: null }, { q: "1", ...out }, ["add label/out MarkRestored"]),
      look(OR, { out: "no" }, { q: "1", ...out }, ["overwrite label/out ValueRestored"]),
    ],
    [
      "L-P10 leaves a foreign label alone while its rule has never matched, overwrites it then, and removes it later",
      look(OR, { out: "mine" }, { out: "mine" }, []),
      look(OR, { q: "1" }, { q: "1", ...out }),
      look(OR, { q: null }, {}),
    ],
    [
      "L-P13 settles a chain of rules in one pass",
      look({ c: "b", b: "a", a: "x", d: "nothing" }, x, { ...x, a: "true", b: "true", c: "true" }),
      look({ c: "b", b: "a", a: "x", d: "nothing" }, { x: null }, {}),
    ],
    ["L-P15 does not look at the value", look(OR, { q: "false" }, { q: "false", ...out })],
    [
      "L-B7 clears every label of ours, and the record, when the folder is empty",
      look({ a: "x", b: "x" }, { ...x, own: "2" }, { ...x, own: "2", a: "true", b: "true" }),
      [{}, {}, { ...x, own: "2" }],
    ],
    [
      "never matches a key that only the prototype has",
      look({ out: "constructor", toString: "x" }, { a: "1" }, { a: "1" }, []),
    ],
  ])("%s", (_what, ...looks) => expect(looks).toSatisfy(comeTrue));
});

describe("not seeing", () => {
  const set = look({ a: "x", b: "a" }, x, { ...x, a: "true", b: "true" });
  const UNREAD = "keep label/a RuleUnreadable";
  const [A, B] = ["keep label/a SourceNotRead", "keep label/b SourceNotRead"];

  it.each<[string, ...Look[]]>([
    [
      "keeps the label of a file that cannot be read, and what follows from it",
      set,
      look({ a: undefined, b: "a" }, { x: null }, { a: "true", b: "true" }, [UNREAD]),
    ],
    [
      "keeps what might follow from a label that was removed while its rule cannot be read",
      set,
      look({ a: undefined, b: "a" }, { a: null, x: null }, { b: "true" }, [
        UNREAD,
        "keep label/b RuleUnreadable",
      ]),
    ],
    ["does not set the label of a file that cannot be read", look({ a: undefined }, x, x, [])],
    [
      "removes nothing while the folder is missing or was not seen whole",
      set,
      [{ unread: ["folder"] }, { x: null }, { a: "true", b: "true" }, [A, B]],
      [{ files: { b: "a" }, unread: ["folder"] }, {}, { a: "true", b: "true" }, [A]],
    ],
  ])("%s", (_what, ...looks) => expect(looks).toSatisfy(comeTrue));
});

describe("L-B9 rules that depend on themselves", () => {
  const both = { a: "true", b: "true" };

  it.each<[string, ...Look[]]>([
    [
      "do not keep their own label alive",
      look({ a: "x\na" }, x, { ...x, a: "true" }),
      look({ a: "x\na" }, { x: null }, {}),
    ],
    [
      "do not keep each other's labels alive",
      look({ a: "x\nb", b: "a" }, x, { ...x, ...both }),
      look({ a: "x\nb", b: "a" }, { x: null }, {}),
    ],
    [
      "take a label that somebody else set as support for the others, and leave it to them",
      look({ a: "b", b: "a" }, { a: "theirs" }, { a: "theirs", b: "true" }),
      look({ a: "b", b: "a" }, { a: null }, {}),
    ],
    [
      "take over such a label once something outside the cycle asks for it",
      look({ a: "b\nx", b: "a" }, { a: "theirs", ...x }, { ...x, ...both }),
    ],
  ])("%s", (_what, ...looks) => expect(looks).toSatisfy(comeTrue));
});
