/** Asks about the claims of one project, a few requests at a time, so that no worker of a controller waits for them. */

/** Requests in flight for one project. All projects of a host share its connections. */
const MOST = 4;

/** One question about the claim of one Instance. Must not reject. */
export type Question = () => Promise<void>;

export class Keeper {
  readonly #mayAsk: () => boolean;
  /** By uid of the Instance, the oldest first. */
  readonly #waiting = new Map<string, Question>();
  readonly #asked = new Set<string>();

  /** @param mayAsk false while the service does not work: then all questions wait. Call `next` when it works again. */
  constructor(mayAsk: () => boolean) {
    this.#mayAsk = mayAsk;
  }

  /** Does a question about this Instance wait for its turn or its answer? */
  has(uid: string): boolean {
    return this.#waiting.has(uid) || this.#asked.has(uid);
  }

  /** Replaces a question about this Instance that waits. One that is asked already is answered first. */
  ask(uid: string, question: Question): void {
    this.#waiting.set(uid, question);
    this.next();
  }

  /** Drops the question that waits. */
  forget(uid: string): void {
    this.#waiting.delete(uid);
  }

  next(): void {
    for (const [uid, question] of this.#waiting) {
      if (this.#asked.size >= MOST || !this.#mayAsk()) return;
      if (this.#asked.has(uid)) continue;
      this.#waiting.delete(uid);
      this.#asked.add(uid);
      void question().finally(() => {
        this.#asked.delete(uid);
        this.next();
      });
    }
  }
}
