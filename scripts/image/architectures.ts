/** The architectures of the image: those that Node is released for on Linux, of those that nodes commonly have. */
export const ARCHITECTURES = ["amd64", "arm64"] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

/** As npm names them. */
export const CPUS: Readonly<Record<Architecture, string>> = { amd64: "x64", arm64: "arm64" };

/** `e_machine` of an ELF file (elf.h). */
const MACHINES: Readonly<Record<Architecture, number>> = { amd64: 62, arm64: 183 };

/** @throws Error for a program that the architecture does not run. */
export function checkProgram(what: string, header: Buffer, architecture: Architecture): void {
  const isElf = header.length >= 20 && header.toString("latin1", 0, 4) === "\u007fELF";
  const machine = isElf ? header.readUInt16LE(18) : undefined;
  if (machine === MACHINES[architecture]) return;
  const built = ARCHITECTURES.find((other) => MACHINES[other] === machine);
  throw new Error(`${what} is built for ${built ?? "no architecture of the image"}, not for ${architecture}`);
}
