/**
 * Normalizes command lines. Programs with Go's flag package accept `-long` for `--long`, and the originals,
 * k8s-auto-labeller and datum-cloud/compute, took their flags without a subcommand. Berth accepts both. Pure.
 */

/** The names of commands and options, to distinguish flags, values and commands. */
export interface CommandLine {
  /** Names of the subcommands. */
  readonly commands: ReadonlySet<string>;
  /** Options of any command that take a value: `kubeconfig`, and `o` for `-o`. */
  readonly valued: ReadonlySet<string>;
  /** Long options without a value. */
  readonly flags: ReadonlySet<string>;
}

export interface NormalArguments {
  /** Arguments for the parser: the subcommand first, long options with two dashes. */
  readonly arguments: readonly string[];
  /** `original`: a flag of k8s-auto-labeller without a subcommand. It means `run` with the defaults of that. */
  readonly form: "original" | "command";
}

/** Flags of the original k8s-auto-labeller. Only originals start `run` without a subcommand: `berth` alone prints help. */
const ORIGINAL = /^--(?:label-dir|kubeconfig|master)(?:=|$)/;
/** Flags of datum-cloud/compute. With them `run` needs no label folder. */
const OPERATOR = /^--(?:server-config|enable-(?:cell|management)-controllers)(?:=|$)/;
/** Options about the program itself. With them the form is never `original`. */
const ABOUT: ReadonlySet<string> = new Set(["--help", "-h", "--version", "-V"]);

/** Spellings of Go's `strconv.ParseBool`. */
const TRUE: ReadonlySet<string> = new Set(["1", "t", "T", "true", "TRUE", "True"]);
const FALSE: ReadonlySet<string> = new Set(["0", "f", "F", "false", "FALSE", "False"]);

/**
 * - `-kubeconfig x` and `-kubeconfig=x` become `--kubeconfig …`. Only long options change, so `-o json` stays.
 * - `--leader-elect=false` works, with every spelling of Go's booleans.
 * - Options before the subcommand move behind it.
 * - Without a subcommand, a flag of the original selects `run` in its original form.
 * - An empty command line becomes `--help`. The parser reports all other errors.
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
  const isOperator = words.some((word) => OPERATOR.test(word));
  const isOriginal = isOperator || words.some((word) => ORIGINAL.test(word));
  if (!isOriginal || words.some((word) => ABOUT.has(word)))
    return { arguments: [...words, ...rest], form: "command" };
  return { arguments: ["run", ...words, ...rest], form: isOperator ? "command" : "original" };
}

/** Adds the second dash to `-name` and `-name=value` when the long name is known. */
function withTwoDashes(word: string, { valued, flags }: CommandLine): string {
  const name = /^-([a-z][a-z0-9-]+)(?:=|$)/.exec(word)?.[1];
  return name !== undefined && (valued.has(name) || flags.has(name)) ? `-${word}` : word;
}

/** Is the word the value of the option before it? */
function isValue(words: readonly string[], index: number, { valued }: CommandLine): boolean {
  const before = words[index - 1];
  return before !== undefined && /^--?[a-z]/.test(before) && valued.has(before.replace(/^--?/, ""));
}

/** The parser knows only flags without a value. When a flag occurs several times, the last one wins, as in Go. */
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
