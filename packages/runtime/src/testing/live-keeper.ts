import { eventually } from "@berth/testcluster";
import { expect } from "vitest";
import { CertificateKeeper, type CertificateKeeperOptions } from "../admission/certificate-keeper.ts";
import { createVirtualClock, type VirtualClock } from "../clock.ts";
import { createSilentLogger } from "../json-log.ts";

export interface LiveKeeper extends AsyncDisposable {
  readonly keeper: CertificateKeeper;
  readonly clock: VirtualClock;
  /** How often it told that it shows another certificate. */
  readonly changes: number;
  /** Until it shows a certificate, and this one if it is given. What failed is tried again by the clock. */
  readonly shows: (certificate?: string) => Promise<string>;
}

/** Its clock is held still, so that only a test lets time pass. */
export async function launchKeeper(
  secret: CertificateKeeperOptions["secret"],
  options: Partial<CertificateKeeperOptions> & Pick<CertificateKeeperOptions, "client" | "hosts">,
): Promise<LiveKeeper> {
  const clock = createVirtualClock();
  let changes = 0;
  const keeper = new CertificateKeeper({
    secret,
    labels: { "app.kubernetes.io/managed-by": "berth" },
    clock,
    log: createSilentLogger(),
    onChange: () => changes++,
    ...options,
  });
  const stopping = new AbortController();
  const running = await keeper.start(stopping.signal);
  return {
    keeper,
    clock,
    get changes() {
      return changes;
    },
    shows: (certificate?: string) =>
      eventually(async () => {
        await clock.advance(1000);
        const shown = keeper.current()?.certificate;
        expect(shown).toBeDefined();
        if (certificate !== undefined && shown !== certificate)
          throw new Error("it shows another certificate");
        return shown ?? "";
      }),
    [Symbol.asyncDispose]: async () => {
      stopping.abort();
      await running.ended;
    },
  };
}
