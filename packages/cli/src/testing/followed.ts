import { createConfigFollower, type Fault } from "@berth/host";
import { LabelFolderFollower, labelFolderKind, type ParsedFolder } from "@berth/placement";
import { createSilentLogger, systemClock } from "@berth/runtime";
import { documentKinds } from "../kinds.ts";

export interface Followed extends AsyncDisposable {
  readonly source: LabelFolderFollower;
  readonly faults: Fault[];
  /** Label keys of the rules in force; `undefined` for none at all. */
  keys(): readonly string[] | undefined;
  /** Reasons of the faults of the rules in force. */
  problems(): readonly string[] | undefined;
  /** How often rules came into force. */
  times(): number;
}

export async function follow(options: {
  readonly folder?: string;
  readonly config?: string;
}): Promise<Followed> {
  const stop = new AbortController();
  const faults: Fault[] = [];
  let current: ParsedFolder | undefined;
  let times = 0;
  const common = {
    clock: systemClock,
    log: createSilentLogger(),
    onFault: (fault: Fault) => void faults.push(fault),
  };
  const files = createConfigFollower({
    ...common,
    config: options.config === undefined ? [] : [{ path: options.config, shown: "conf" }],
    kinds: documentKinds,
    onDocuments: (documents) => source.follow(documents.specOf(labelFolderKind)),
  });
  const source = new LabelFolderFollower({
    ...common,
    whenTold: files.firstReading,
    onRules: (parsed) => {
      current = parsed;
      times += 1;
    },
  });
  if (options.folder !== undefined)
    source.follow({ path: options.folder, shown: "labels", options: { allowReserved: [] } });
  const [following, running] = await Promise.all([files.start(stop.signal), source.start(stop.signal)]);
  return {
    source,
    faults,
    keys: () => (current === undefined ? undefined : [...current.rules.byKey.keys()]),
    problems: () => current?.problems.map(({ reason }) => reason),
    times: () => times,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all([following.ended, running.ended]);
    },
  };
}
