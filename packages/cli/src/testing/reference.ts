/** Generates docs/reference/cli.md from the declarations of the commands. A test compares the two. */
import type { Command } from "commander";
import { capabilityNames } from "../capability-names.ts";
import { exitCodeMeanings } from "../exit-codes.ts";
import { createSilentProgram, everyCommand } from "../program.ts";

const WIDTH = 100;

export function renderReference(): string {
  const root = createSilentProgram(capabilityNames, WIDTH);
  // Commands that begin with two underscores are hidden.
  const commands = everyCommand(root).filter((it) => it !== root && !it.name().startsWith("__"));
  const sections = commands.map((command) => `## ${pathOf(command)}\n\n${block(command.helpInformation())}`);
  return [INTRODUCTION, block(root.helpInformation()), ORIGINAL, exitCodeTable(), ...sections]
    .join("\n\n")
    .concat("\n");
}

const INTRODUCTION = `# The command line

Written from the program itself; \`berth help COMMAND\` shows the same. From a clone of the repository it is
\`bin/berth\` after \`make build\`.`;

const ORIGINAL = `## Without a command

\`berth\` alone prints help. With one of the flags of k8s-auto-labeller, \`-label-dir FOLDER\`, \`-kubeconfig FILE\` or
\`-master URL\`, it runs as k8s-auto-labeller does. There the label folder is \`labels\` by default, or
\`/labels\` when there is none. \`run\` without \`--label-dir\` and \`--config\` reads \`/labels\` where it exists: the image runs
\`run\` unless a container has arguments. Every long option may be written with one dash, as Go programs have it, and
options may stand before the command.

The cluster is found in this order: \`--kubeconfig\`, the files in \`KUBECONFIG\` (merged as kubectl does), the service
account of the pod, \`~/.kube/config\`. \`--context\` skips the service account.

\`run\` keeps the Leases of \`--leader-elect\`, and Events about faults of files, in the namespace of \`--namespace\`, else that
of its pod, else \`berth-system\`. When that does not exist, it says so and keeps its state in memory.

SIGTERM and SIGINT end \`run\` in order within two seconds; a second one ends it at once.

A leader that cannot renew one of its Leases for 10 s, or was frozen for so long, writes nothing more, stops in order, drops the
Events it has not written, and ends with code 6. The kubelet starts it again, and it stands by.`;

const MISSING_PERMISSIONS = `A command that looks at the cluster once names each missing permission once, by verb and resource. It goes on with what it
may read, and ends with 4 when it may read nothing to go by. \`clean\` ends with 4 whenever something may not be read.`;

/** Padded to match the formatter. */
function exitCodeTable(): string {
  const rows = [["code", "meaning"], ...exitCodeMeanings.map(({ code, meaning }) => [String(code), meaning])];
  const width = Math.max(...rows.map(([, meaning = ""]) => meaning.length));
  const line = ([code = "", meaning = ""]: readonly string[], filler = " "): string =>
    `| ${code.padEnd(4, filler)} | ${meaning.padEnd(width, filler)} |`;
  const [head = [], ...body] = rows;
  const table = [line(head), line(["", ""], "-"), ...body.map((row) => line(row))];
  return ["## Exit codes", "", ...table, "", MISSING_PERMISSIONS].join("\n");
}

function pathOf(command: Command): string {
  const { parent } = command;
  return parent === null ? command.name() : `${pathOf(parent)} ${command.name()}`;
}

function block(text: string): string {
  return `\`\`\`text\n${text.trimEnd()}\n\`\`\``;
}
