/** The key that signs what Berth makes in cells: a Secret of Berth's namespace, which no cell can read. It is of one hub. */
import { randomBytes } from "node:crypto";
import { isApiError, type Secret, secrets } from "@berth/kube";
import { type Clock, type Component, createLoopComponent, type Logger, sleep } from "@berth/runtime";
import { labels } from "../../api/keys.ts";
import { createSigner, type Signer } from "../../api/origin.ts";
import type { Planes } from "./planes.ts";
import { presentClient } from "./sender.ts";

/** The name of the Secret. */
export const SIGNING_KEY = "berth-fleet-signing";
const BYTES = 32;
const LOOK_MS = 1_000;

export interface SigningKeyOptions {
  readonly planes: Planes;
  /** Berth's own namespace. */
  readonly home: string;
  readonly clock: Clock;
  readonly log: Logger;
}

export class SigningKey {
  readonly #options: SigningKeyOptions;
  #known: Signer | undefined;

  constructor(options: SigningKeyOptions) {
    this.#options = options;
  }

  /** `undefined`: it is not read yet, or the hub is another one than that of the key. Once read, it stays: with another one all that cells have would count as forged. */
  get signer(): Signer | undefined {
    if (this.#known !== undefined) return this.#known;
    const key = this.#key;
    const isOfHub = this.#hubUid !== undefined && this.#otherHub === undefined;
    if (isOfHub && key !== undefined) this.#known = createSigner(key);
    return this.#known;
  }

  get #secret(): Secret | undefined {
    const { planes, home: namespace } = this.#options;
    return planes.views.secrets.get({ cluster: planes.own.name, namespace, name: SIGNING_KEY });
  }

  get #key(): Buffer | undefined {
    const key = Buffer.from(this.#secret?.data?.["key"] ?? "", "base64");
    return key.length < BYTES ? undefined : key;
  }

  get #hubUid(): string | undefined {
    const { hub } = this.#options.planes;
    return hub.set.get(hub.name)?.identity;
  }

  /** The hub of the key, if it is not the one that answers. */
  get #otherHub(): string | undefined {
    const pinned = Buffer.from(this.#secret?.data?.["hub"] ?? "", "base64").toString();
    return pinned !== "" && this.#hubUid !== undefined && pinned !== this.#hubUid ? pinned : undefined;
  }

  /** Makes the Secret where there is none. For the leader. */
  maker(): Component {
    const { clock, log } = this.#options;
    return createLoopComponent({
      name: "hub-signing-key",
      run: async (signal) => {
        do {
          if (this.signer === undefined)
            await this.#make(signal).catch((error: unknown) => log.warn(String(error)));
        } while (await sleep(clock, LOOK_MS, signal));
      },
      problem: () => this.problem(),
    });
  }

  /** Why nothing can be signed, if that does not end by itself. */
  problem(): string | undefined {
    if (this.#isLost) return `Secret ${SIGNING_KEY} is gone: put it back, or cells count as foreign`;
    const other = this.#otherHub;
    if (other === undefined) return undefined;
    return `the hub is ${this.#hubUid}, and Secret ${SIGNING_KEY} is of hub ${other}: connect Berth to that one, or take the key hub out of the Secret`;
  }

  /** Cells have what the lost key has signed. */
  get #isLost(): boolean {
    const { hub, views } = this.#options.planes;
    if (this.#known !== undefined || this.#key !== undefined) return false;
    return [...views.hub.deployments.list(hub.name)].some(
      (it) => it.metadata?.labels?.[labels.cell] !== undefined,
    );
  }

  async #make(signal: AbortSignal): Promise<void> {
    const { planes, home: namespace } = this.#options;
    const { own, hub, views } = planes;
    const isRead =
      views.secrets.state(own.name) === "synced" && views.hub.deployments.state(hub.name) === "synced";
    const hubUid = this.#hubUid;
    if (!isRead || hubUid === undefined || this.#isLost || this.#key !== undefined) return;
    const data = { key: randomBytes(BYTES).toString("base64"), hub: Buffer.from(hubUid).toString("base64") };
    try {
      const secret = { metadata: { namespace, name: SIGNING_KEY }, type: "Opaque", data };
      await presentClient(own.set, own.name).create(secrets, secret, { signal });
    } catch (error) {
      // Another process has made it: the view shows it soon.
      if (!isApiError(error, "alreadyExists")) throw error;
    }
  }
}
