/** `berth`, and with the name of the installation any other. */
export function baseName(installation: string): string {
  return installation === "berth" ? "berth" : `berth-${installation}`;
}
