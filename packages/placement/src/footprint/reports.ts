/** What footprints say of themselves: those of the cluster in their status, those of files in the log. */

import {
  ConditionLog,
  createKeySource,
  createStatusController,
  type DocumentVersion,
  documentName,
} from "@berth/host";
import { type Controller, createController, type Informer, keyOf, type ObjectKey } from "@berth/runtime";
import type { WiringDeps } from "../node/wired.ts";
import { type FootprintJudgement, type FootprintProgress, isGoodCondition } from "./conditions.ts";
import { type Footprint } from "./footprint.ts";
import { type NodeFootprint, nodeFootprints } from "./resource.ts";
import { decideFootprintStatus } from "./status.ts";

export interface FootprintReportsOptions
  extends Pick<WiringDeps, "client" | "cluster" | "events" | "metrics" | "log" | "clock"> {
  readonly objects: Informer<NodeFootprint>;
  /** Of those of the cluster; `undefined` until this version was taken over. */
  readonly judge: (name: string, version: DocumentVersion) => FootprintJudgement | undefined;
  /** Of those of files, by name. */
  readonly judgeFile: (name: string) => FootprintJudgement | undefined;
  /** By rule; `undefined` while it is not in force. */
  readonly progressOf: (rule: string) => FootprintProgress | undefined;
  /** Names of the documents of files. */
  readonly files: () => readonly string[];
  readonly inForce: () => readonly Footprint[];
  /** What else than counts has come to be said of it. */
  readonly hindrances: (footprint: Footprint) => string;
}

export interface FootprintReports {
  /** Something is to be said anew of this footprint. */
  askRule(rule: string): void;
  askAll(): void;
  /** Rights come and go without a word: looks for what has changed of them, and asks for it. */
  look(): void;
  readonly controllers: readonly Controller[];
}

/** As often as a status is written at most. Milliseconds. */
const COALESCE_MS = 1000;

export function createFootprintReports(options: FootprintReportsOptions): FootprintReports {
  const { cluster, judgeFile, progressOf, files, clock, log } = options;
  const statuses = createStatusController({
    ...options,
    name: "node-footprints",
    resource: nodeFootprints,
    action: "KeepFootprint",
    noun: "node footprint",
    isGood: isGoodCondition,
    decide: (object, judgement, rule) =>
      decideFootprintStatus({ object, judgement, progress: progressOf(rule), now: clock.now() }),
  });
  const said = new ConditionLog({ noun: "footprint", isGood: isGoodCondition, log });
  const keyNamed = (name: string): ObjectKey => keyOf(cluster, { metadata: { name } });
  const asked = createKeySource(() => files().map(keyNamed));
  const fileController = createController({
    name: "footprint-conditions",
    reconcile({ name }) {
      said.keep(files().map(ruleOf));
      const conditions = said.of(ruleOf(name)) ?? [];
      const { status } = decideFootprintStatus({
        object: { status: { conditions } },
        judgement: judgeFile(name),
        progress: progressOf(ruleOf(name)),
        now: clock.now(),
      });
      if (status?.conditions) said.tell(ruleOf(name), status.conditions);
      return Promise.resolve(undefined);
    },
    sources: [asked],
    queue: { coalesceMs: COALESCE_MS },
    clock,
    log,
    metrics: options.metrics,
  });
  let seen = new Map<string, string>();
  const askRule = (rule: string): void => {
    statuses.askRule(rule);
    const name = documentName(rule, "config");
    if (name !== undefined) asked.ask([keyNamed(name)]);
  };
  return {
    askRule,
    askAll() {
      statuses.askAll();
      asked.ask(files().map(keyNamed));
    },
    look() {
      const now = new Map(options.inForce().map((it) => [it.rule, options.hindrances(it)]));
      for (const [rule, hindrances] of now) if (seen.get(rule) !== hindrances) askRule(rule);
      seen = now;
    },
    controllers: [statuses.controller, fileController],
  };
}

function ruleOf(name: string): string {
  return `config/${name}`;
}
