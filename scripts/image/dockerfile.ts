/** What the Dockerfile says about the image, as an OCI config says it: so both ways make the same image. */
export function configOf(dockerfile: string): Readonly<Record<string, unknown>> {
  const said = (instruction: string): string => {
    const [, value] = new RegExp(`^${instruction} (.+)$`, "m").exec(dockerfile) ?? [];
    if (value === undefined) throw new Error(`the Dockerfile has no ${instruction}`);
    return value;
  };
  const list = (instruction: string): readonly string[] => JSON.parse(said(instruction)) as string[];
  return {
    User: said("USER"),
    Env: [said("ENV")],
    Entrypoint: list("ENTRYPOINT"),
    Cmd: list("CMD"),
    Volumes: Object.fromEntries(list("VOLUME").map((path) => [path, {}])),
  };
}
