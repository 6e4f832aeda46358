/** What the Dockerfile says about the image, as an OCI config says it: so both ways make the same image. */
export function configOf(dockerfile: string): Readonly<Record<string, unknown>> {
  const all = (instruction: string): readonly string[] =>
    Array.from(dockerfile.matchAll(new RegExp(`^${instruction} (.+)$`, "gm")), ([, value = ""]) => value);
  const said = (instruction: string): string => {
    const [value] = all(instruction);
    if (value === undefined) throw new Error(`the Dockerfile has no ${instruction}`);
    return value;
  };
  const list = (instruction: string): readonly string[] => JSON.parse(said(instruction)) as string[];
  return {
    User: said("USER"),
    Env: all("ENV"),
    Entrypoint: list("ENTRYPOINT"),
    Cmd: list("CMD"),
    Volumes: Object.fromEntries(list("VOLUME").map((path) => [path, {}])),
  };
}
