import { type Clock, systemClock } from "../clock.ts";
import type { Component } from "../component.ts";
import { createLoopComponent } from "../component.ts";
import { type FolderWatchOptions, watchFolder } from "../file-source.ts";
import type { FolderSnapshot } from "../folder-reader.ts";
import type { Logger } from "../log.ts";
import {
  type CertificateContent,
  faultOf,
  NO_CONTENT,
  type StandingContent,
  takeOver,
} from "./certificate-content.ts";
import type { CertificateSource } from "./certificate-source.ts";

/** The folder, and the callback. */
export interface CertificateFolderOptions
  extends Pick<FolderWatchOptions, "debounceMs" | "settleMs" | "pollMs" | "notifier"> {
  /** Holds `tls.crt`, `tls.key` and perhaps `ca.crt`, as a mounted Secret does. Need not exist yet. */
  readonly path: string;
  /** Names that the certificate must be valid for. Default none: names are not checked. */
  readonly hosts?: readonly string[];
  /** Names the component; default `certificates`. */
  readonly name?: string;
  readonly log: Logger;
  /** Default: the machine's. */
  readonly clock?: Clock;
  /** Called after `current` or `caBundle` changed. Must not throw. */
  readonly onChange?: () => void;
}

/** Reads certificates from files while it runs. */
export interface CertificateFolder extends Component, CertificateSource {
  problem(): string | undefined;
}

const FILES: ReadonlySet<string> = new Set(["tls.crt", "tls.key", "ca.crt"]);

/**
 * Certificates from a folder that another program writes. Changes take effect without a restart. While files are
 * missing or invalid (garbage, half of a new pair, expired), the last good pair stays in use, and `problem` gives the
 * reason. `start` does not wait for files.
 */
export function createCertificateFolder(options: CertificateFolderOptions): CertificateFolder {
  const { path, hosts = [], log, clock = systemClock, onChange } = options;
  let good: StandingContent | undefined;
  let fault: string | undefined = "nothing has been read yet";
  const take = (content: CertificateContent): void => {
    const before = good;
    good = takeOver(content, before);
    if (good === before) return;
    log.info("took a certificate over", { path });
    onChange?.();
  };
  const read = (snapshot: FolderSnapshot): void => {
    const content = contentOf(snapshot);
    fault = incompleteness(snapshot) ?? faultOf(content, hosts, clock.now());
    if (fault === undefined) take(content);
    else log.warn("a certificate cannot be taken over", { path, fault });
  };
  const problem = (): string | undefined => {
    const now = fault ?? good?.faultAt(clock.now());
    return now === undefined ? undefined : `certificate in ${path}: ${now}`;
  };
  const { debounceMs, settleMs, pollMs, notifier } = options;
  const loop = createLoopComponent({
    name: options.name ?? "certificates",
    run: (signal) =>
      watchFolder({
        path,
        clock,
        signal,
        include: (file) => FILES.has(file),
        onChange: read,
        onProblem: (found) => log.info("a certificate file cannot be read", { ...found, path }),
        ...(debounceMs !== undefined && { debounceMs }),
        ...(settleMs !== undefined && { settleMs }),
        ...(pollMs !== undefined && { pollMs }),
        ...(notifier !== undefined && { notifier }),
      }),
    problem,
  });
  return {
    name: loop.name,
    start: (signal) => loop.start(signal),
    problem,
    current: () => good?.pair,
    caBundle: () => good?.bundle,
  };
}

function contentOf({ files }: FolderSnapshot): CertificateContent {
  const text = (file: string): string => files.get(file)?.text ?? "";
  return { ...NO_CONTENT, certificate: text("tls.crt"), key: text("tls.key"), authorities: text("ca.crt") };
}

/** A file that exists but cannot be read does not count as missing. */
function incompleteness({ root, files, problems }: FolderSnapshot): string | undefined {
  if (root !== "read") return `the folder is ${root}`;
  const missing = ["tls.crt", "tls.key"].filter((file) => !files.has(file));
  if (missing.length > 0) return `${missing.join(" and ")} missing`;
  const [problem] = problems;
  return problem && `${problem.path}: ${problem.problem}`.replace(/^: /, "");
}
