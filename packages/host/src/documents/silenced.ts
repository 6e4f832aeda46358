/** Codes of warnings that the author of an object has seen: an annotation names them, with commas between. */
export function silencedBy(
  annotations: Readonly<Record<string, string>> | undefined,
  key: string,
): readonly string[] {
  return annotations?.[key]?.split(",").map((code) => code.trim()) ?? [];
}
