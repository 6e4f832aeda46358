import { isApiError } from "@berth/kube";
import {
  CONFIRMED_ANNOTATION,
  confirmation,
  labelRuleKind,
  labelRuleSpec,
  labelRules,
} from "@berth/placement";
import type { CommandDeps } from "../command-deps.ts";
import type { RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { openSession, readRuleFiles } from "../session.ts";

export interface ConfirmOptions extends ConnectionOptions, Pick<RuleOptions, "config"> {
  /** Name of the LabelRule. */
  readonly rule: string;
}

/**
 * Confirms a rule in its current form. In the cluster it sets an annotation, guarded by the version that was read. For
 * a rule in a file it prints the text to add there.
 *
 * @throws CommandError when the rule does not exist, has a fault, or was edited meanwhile.
 */
export async function confirm(options: ConfirmOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, clock, signal } = deps;
  const { rule: name } = options;
  const files = await readRuleFiles(options, deps);
  await using session = await openSession(options, deps);
  const inFile = files.settings.documentsOf(labelRuleKind).find((rule) => rule.name === name);
  try {
    const { metadata, spec: given } = await session.client.get(labelRules, { name }, { signal });
    const spec = labelRuleSpec.safeParse(given);
    if (!spec.success) throw new CommandError(`the LabelRule ${name} has a fault and cannot be confirmed`);
    const { uid, resourceVersion } = metadata ?? {};
    const annotations = { [CONFIRMED_ANNOTATION]: confirmation(spec.data, clock.now()) };
    const body = { metadata: { uid, resourceVersion, annotations } };
    await session.client.patch(labelRules, { name }, { type: "merge", body }, { signal });
    stdout.write(`${name} is confirmed as it stands. Its removals do not freeze for the next 10 minutes.\n`);
  } catch (error) {
    if (isApiError(error, "conflict")) {
      const message = `the LabelRule ${name} was edited meanwhile: look at berth plan, then confirm again`;
      throw new CommandError(message, exitCodes.failed, { cause: error });
    }
    if (!isApiError(error, "notFound")) throw error;
    if (inFile === undefined) throw new CommandError(`there is no LabelRule ${name}`);
    stdout.write(
      `${name} is in ${inFile.file}:${inFile.line}. To confirm it as it stands, write there under metadata:\n` +
        `  annotations:\n    ${CONFIRMED_ANNOTATION}: ${confirmation(inFile.spec, clock.now())}\n`,
    );
  }
  return exitCodes.done;
}
