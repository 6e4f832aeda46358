/** `--feature-gates`: a list of `NAME=BOOLEAN`, as Go's component-base reads it. */

const GATES = ["NetworkingIntegration", "ContainerResources"] as const;

/** Those that the list names. */
export type FeatureGates = Readonly<Partial<Record<(typeof GATES)[number], boolean>>>;

/** Spellings of Go's `strconv.ParseBool`. */
const TRUE = /^(?:1|t|T|TRUE|true|True)$/;
const FALSE = /^(?:0|f|F|FALSE|false|False)$/;

/** The last value of a name wins. `problem`: a sentence for the user. */
export function readFeatureGates(list = ""): { readonly gates: FeatureGates } | { readonly problem: string } {
  const gates: Partial<Record<(typeof GATES)[number], boolean>> = {};
  for (const part of list.split(",").filter((text) => text !== "")) {
    const [given = "", ...rest] = part.split("=");
    const [shown, value] = [given.trim(), rest.join("=").trim()];
    const gate = GATES.find((it) => it === shown);
    if (gate === undefined)
      return { problem: `--feature-gates ${shown}: there is no such gate; Berth has ${GATES.join(" and ")}` };
    if (!TRUE.test(value) && !FALSE.test(value))
      return { problem: `--feature-gates ${shown}=${value}: expected ${shown}=true or ${shown}=false` };
    gates[gate] = TRUE.test(value);
  }
  return { gates };
}
