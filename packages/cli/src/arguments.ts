/**
 * Command lines as people are used to them. Programs with Go's flag package take `-long` for `--long`, and the
 * original k8s-auto-labeller took its flags without a subcommand; both go on working. Pure: texts in, texts out.
 */

/** What is known about the command line, so that flags, values and commands can be told apart. */
export interface CommandLine {
  /** Names of the subcommands. */
  readonly commands: ReadonlySet<string>;
  /** Options that take a value, of whichever command: `kubeconfig`, and `o` for `-o`. */
  readonly valued: ReadonlySet<string>;
  /** Long options that are given or not. */
  readonly flags: ReadonlySet<string>;
}

export interface NormalArguments {
  /** For the parser: the subcommand first, long options with two dashes. */
  readonly arguments: readonly string[];
  /** `original`: a flag of the original and no subcommand, so it is `run` with the defaults of the original. */
  readonly form: "original" | "command";
}

/** The flags of the original k8s-auto-labeller. Only they start `run` without a subcommand: a bare `berth` changes nothing. */
const ORIGINAL = /^--(?:label-dir|kubeconfig|master)(?:=|$)/;
/** Options that ask about the program itself and so are no use of the original form. */
const ABOUT: ReadonlySet<string> = new Set(["--help", "-h", "--version", "-V"]);

/** Spellings of Go's `strconv.ParseBool`. */
const TRUE: ReadonlySet<string> = new Set(["1", "t", "T", "true", "TRUE", "True"]);
const FALSE: ReadonlySet<string> = new Set(["0", "f", "F", "false", "FALSE", "False"]);

/**
 * - `-kubeconfig x`, `-kubeconfig=x` become `--kubeconfig …`; only for options that exist, so `-o json` stays.
 * - `--leader-elect=false` and the other spellings of Go's booleans are understood.
 * - Options before the subcommand move behind it.
 * - Without a subcommand, a flag of the original makes it `run` in its original form.
 * - Without any argument it is `--help`. All else is left for the parser to complain about.
 */
export function normalizeArguments(given: readonly string[], line: CommandLine): NormalArguments {
  const end = given.indexOf("--");
  const options = end < 0 ? given : given.slice(0, end);
  const rest = end < 0 ? [] : given.slice(end);
  const words = settleBooleans(
    options.map((word) => withTwoDashes(word, line)),
    line,
  );
  const at = words.findIndex((word, index) => !word.startsWith("-") && !isValue(words, index, line));
  const first = words[at];
  if (first !== undefined) {
    if (!line.commands.has(first)) return { arguments: [...words, ...rest], form: "command" };
    const moved = [first, ...words.slice(0, at), ...words.slice(at + 1)];
    return { arguments: [...moved, ...rest], form: "command" };
  }
  if (given.length === 0) return { arguments: ["--help"], form: "command" };
  const isOriginal = words.some((word) => ORIGINAL.test(word)) && !words.some((word) => ABOUT.has(word));
  if (!isOriginal) return { arguments: [...words, ...rest], form: "command" };
  return { arguments: ["run", ...words, ...rest], form: "original" };
}

/** `-name` and `-name=value` with a known long name get their second dash. */
function withTwoDashes(word: string, { valued, flags }: CommandLine): string {
  const name = /^-([a-z][a-z0-9-]+)(?:=|$)/.exec(word)?.[1];
  return name !== undefined && (valued.has(name) || flags.has(name)) ? `-${word}` : word;
}

/** Is the word the value of the option before it? */
function isValue(words: readonly string[], index: number, { valued }: CommandLine): boolean {
  const before = words[index - 1];
  return before !== undefined && /^--?[a-z]/.test(before) && valued.has(before.replace(/^--?/, ""));
}

/** The parser knows flags that are there or not: of several the last wins, as in Go. */
function settleBooleans(words: readonly string[], line: CommandLine): readonly string[] {
  let settled: string[] = [];
  for (const word of words) {
    const [, name = "", value = "true"] = /^--([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    const isBoolean = line.flags.has(name) && (TRUE.has(value) || FALSE.has(value));
    if (isBoolean) settled = settled.filter((other) => other !== `--${name}`);
    if (!isBoolean || TRUE.has(value)) settled.push(isBoolean ? `--${name}` : word);
  }
  return settled;
}
