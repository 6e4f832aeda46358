/** Header `Warning` of an answer (RFC 7234 section 5.5): a deprecated API, a field that was dropped, a policy. */

/** The texts of warnings of Kubernetes, which have the code 299. Others are of proxies. */
export function warningsIn(header: string | readonly string[] | undefined): readonly string[] {
  if (header === undefined) return [];
  const values = typeof header === "string" ? [header] : header;
  return values.flatMap((value) =>
    Array.from(value.matchAll(WARNING), ([, text = ""]) => text.replaceAll(/\\(.)/g, "$1")),
  );
}

const WARNING = /(?:^|,)\s*299 \S+ "((?:[^"\\]|\\.)*)"/g;
