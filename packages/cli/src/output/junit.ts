/** JUnit's XML, as forges read it. Pure. */

export interface JunitCase {
  readonly file: string;
  readonly name: string;
  /** Why it failed. Absent: it passed. */
  readonly failure?: string;
}

export function toJunit(cases: readonly JunitCase[]): string {
  const failures = cases.filter(({ failure }) => failure !== undefined).length;
  const lines = cases.map(({ file, name, failure }) => {
    const head = `    <testcase classname="${escaped(file)}" name="${escaped(name)}"`;
    if (failure === undefined) return `${head}/>`;
    return `${head}>\n      <failure message="not as expected">${escaped(failure)}</failure>\n    </testcase>`;
  });
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    "<testsuites>",
    `  <testsuite name="berth test" tests="${cases.length}" failures="${failures}">`,
    ...lines,
    "  </testsuite>",
    "</testsuites>\n",
  ].join("\n");
}

const ENTITIES: Readonly<Record<string, string>> = { "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;" };

/** XML has no form for control characters. */
function escaped(text: string): string {
  return text.replaceAll(/[<>&"]/g, (it) => ENTITIES[it] ?? it).replaceAll(/[^\t\n\P{Cc}]/gu, "�");
}
