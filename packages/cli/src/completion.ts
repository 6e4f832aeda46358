import type { Command, Option } from "commander";
import { collect } from "./declarations/shared-options.ts";

/** The candidates that a shell may offer at the cursor. */
interface Completion {
  readonly candidates: readonly Candidate[];
  /** True when the shell may complete file names itself, if there are no candidates. */
  readonly files: boolean;
  /** What object's name comes here, in place of candidates. */
  readonly named?: Named;
}

/** Kinds of objects whose names are completed. */
export type NamedKind = keyof typeof NAMED_KINDS;

type Named = Pick<NameQuestion, "kind" | "ending">;

/** For each kind, arguments and options that take its names. An argument `name` follows its kind. */
const NAMED_KINDS = {
  node: /^(?:nodes?|--on|--like)$/,
  namespace: /^--namespace$/,
  daemonset: /^daemonsets$/,
  document: /^rule$/,
  pod: undefined,
  workload: undefined,
  instance: undefined,
} as const;

/** Asks for the names of objects. */
export interface NameQuestion {
  readonly kind: NamedKind;
  /** Of documents: how the name of their kind ends, in lower case. */
  readonly ending: string;
  readonly typed: string;
  /** Values of options that were given before, such as `--context`. */
  readonly options: ReadonlyMap<string, string>;
}

interface Candidate {
  readonly value: string;
  readonly description: string;
}

/**
 * Answers a shell. The first line is about files. Each other line is a candidate, a tab and its description.
 *
 * @param namesOf never rejects.
 * @param words the command line without the program's name. The user is typing the last word, which may be empty.
 */
export async function complete(
  root: Command,
  words: readonly string[],
  namesOf: (question: NameQuestion) => Promise<readonly string[]>,
): Promise<string> {
  const { candidates: found, files, named } = completionsFor(root, words);
  const candidates = named === undefined ? found : await candidatesOf(root, words, named, namesOf);
  const lines = candidates.map(({ value, description }) => `${value}\t${description}`);
  return [files ? FILES : NO_FILES, ...lines, ""].join("\n");
}

async function candidatesOf(
  root: Command,
  words: readonly string[],
  { kind, ending }: Named,
  namesOf: (question: NameQuestion) => Promise<readonly string[]>,
): Promise<readonly Candidate[]> {
  const word = words.at(-1) ?? "";
  // `KIND/NAME`, and `--option=NAME`.
  const [, before = "", typed = word] = new RegExp(`^(${kind}/|--[a-z-]+=)(.*)$`, "s").exec(word) ?? [];
  const { options } = follow(root, words.slice(0, -1));
  const names = await namesOf({ kind, ending, typed, options });
  return names.filter((name) => name.startsWith(typed)).map((name) => plain(before + name));
}

/** Reads the commands' own declarations, so it is always up to date. */
function completionsFor(root: Command, words: readonly string[]): Completion {
  const typed = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const { command, values, pending } = follow(root, before);
  if (pending !== undefined) return valuesOf(pending, typed);
  const [, long, value = ""] = /^(--[a-z-]+)=(.*)$/s.exec(typed) ?? [];
  if (long !== undefined) {
    const option = command.options.find((it) => it.long === long);
    const { candidates, ...rest } = option === undefined ? matching([], value) : valuesOf(option, value);
    return {
      ...rest,
      candidates: candidates.map((it) => Object.assign({}, it, { value: `${long}=${it.value}` })),
    };
  }
  if (typed.startsWith("-")) return matching(optionsOf(command, before), typed);
  if (command.commands.length > 0) return matching(commandsOf(command), typed);
  const argument =
    command.registeredArguments[values.length] ?? command.registeredArguments.findLast((it) => it.variadic);
  const kinds = argument?.name() === "kind" ? (argument.argChoices ?? []) : [];
  const [first = ""] = argument?.name() === "name" ? values : typed.split("/").slice(0, -1);
  const named = namedBy(
    argument?.name() === "name" || kinds.includes(first) ? first : (argument?.name() ?? ""),
  );
  if (named !== undefined) return { candidates: [], files: false, named };
  if (argument?.argChoices) return matching(argument.argChoices.map(plain), typed);
  return { candidates: [], files: argument !== undefined && /file/.test(argument.name()) };
}

interface Place {
  readonly command: Command;
  /** Positional arguments of the command so far. */
  readonly values: readonly string[];
  readonly options: ReadonlyMap<string, string>;
  /** The option whose value comes next. */
  readonly pending: Option | undefined;
}

function follow(root: Command, words: readonly string[]): Place {
  let command = root;
  let values: string[] = [];
  const options = new Map<string, string>();
  let pending: Option | undefined;
  for (const word of words) {
    if (pending !== undefined) {
      options.set(pending.long ?? "", word);
      pending = undefined;
    } else if (word.startsWith("-")) {
      const [name = "", value] = word.split("=", 2);
      const option = command.options.find(({ long, short }) => name === long || name === short);
      if (value !== undefined) options.set(option?.long ?? "", value);
      else if (option?.required) pending = option;
    } else {
      const child = command.commands.find((known) => known.name() === word);
      if (child === undefined) values.push(word);
      else {
        command = child;
        values = [];
      }
    }
  }
  return { command, values, options, pending };
}

/** @param word a kind, or the name of an argument or option. */
function namedBy(word: string): Named | undefined {
  const kinds = Object.keys(NAMED_KINDS) as NamedKind[];
  const kind = kinds.find((it) => it === word || NAMED_KINDS[it]?.test(word));
  return kind && { kind, ending: word };
}

function valuesOf(option: Option, typed: string): Completion {
  if (option.argChoices) return matching(option.argChoices.map(plain), typed);
  const { long = "", flags } = option;
  // `--xyz <name>` may be the name of a document whose kind ends with `Xyz`.
  const isName = flags.endsWith("<name>");
  const named =
    namedBy(long) ?? (isName ? ({ kind: "document", ending: long.slice(2) } as const) : undefined);
  if (named !== undefined) return { candidates: [], files: false, named };
  return { candidates: [], files: /<(?:file|folder|path)>/.test(option.flags) };
}

function optionsOf(command: Command, given: readonly string[]): readonly Candidate[] {
  const options = command.options.filter(
    ({ hidden, long, parseArg }) => !hidden && (parseArg === collect || !given.includes(long ?? "")),
  );
  const help = { value: "--help", description: "Show what the command does" };
  return [
    ...options.map(({ long, short, description }) => ({ value: long ?? short ?? "", description })),
    help,
  ];
}

function commandsOf(command: Command): readonly Candidate[] {
  return command.commands
    .filter((child) => !child.name().startsWith("__"))
    .map((child) => ({ value: child.name(), description: child.description() }));
}

function plain(value: string): Candidate {
  return { value, description: "" };
}

function matching(candidates: readonly Candidate[], typed: string): Completion {
  return { candidates: candidates.filter(({ value }) => value.startsWith(typed)), files: false };
}

export type Shell = "bash" | "zsh" | "fish" | "kubectl";

/** The first line of an answer: may the shell complete file names? */
const FILES = ":files";
const NO_FILES = ":none";

/** The script that each shell sources, and the program that kubectl runs for a plugin. It calls `berth __complete` with the words of the line. */
export const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `# berth: completion for bash. Load it with: source <(berth completion bash)
_berth() {
  local answer line
  COMPREPLY=()
  # Words as typed: bash breaks lines at "=" and ":" too.
  local typed=\${COMP_LINE:0:COMP_POINT}
  local -a words
  read -r -a words <<<"$typed"
  [[ $typed == *[[:space:]] ]] && words+=("")
  answer=$("\${words[0]}" __complete "\${words[@]:1}" 2>/dev/null) || return 0
  local current=\${words[\${#words[@]}-1]}
  local cut=\${current%"\${current##*[=:]}"}
  local first=1
  while IFS= read -r line; do
    if ((first)); then
      first=0
      [[ $line == ${FILES} ]] && mapfile -t COMPREPLY < <(compgen -f -- "\${current#"$cut"}")
      continue
    fi
    line=\${line%%$'\\t'*}
    COMPREPLY+=("\${line#"$cut"}")
  done <<<"$answer"
}
complete -o filenames -F _berth berth
`,
  zsh: `#compdef berth
# berth: completion for zsh. Put it into a folder of $fpath as _berth, or: source <(berth completion zsh)
_berth() {
  local -a answer candidates
  answer=("\${(@f)$("\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ \${answer[1]} == ${FILES} ]]; then
    _files
    return
  fi
  local line
  for line in "\${(@)answer[2,-1]}"; do
    candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  _describe berth candidates
}
if [[ \${funcstack[1]} == _berth ]]; then _berth "$@"; else compdef _berth berth; fi
`,
  fish: `# berth: completion for fish. Load it with: berth completion fish | source
function __berth_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer ($words[1] __complete $words[2..-1] 2>/dev/null)
    if test "$answer[1]" = "${FILES}"
        __fish_complete_path (commandline -ct)
        return
    end
    printf '%s\\n' $answer[2..-1]
end
complete -c berth -f -a '(__berth_complete)'
`,
  // The answer ends with a directive of Cobra: 4 keeps the shell from completing file names.
  kubectl: `#!/bin/sh
# berth: completion for kubectl berth. Save it on the PATH: berth completion kubectl >kubectl_complete-berth
kubectl-berth __complete "$@" 2>/dev/null |
  awk 'NR == 1 { files = $0 == "${FILES}"; next } { print } END { print files ? ":0" : ":4" }'
`,
};
