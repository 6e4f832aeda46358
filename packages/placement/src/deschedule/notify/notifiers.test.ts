/** How often notifiers send, and what they keep, on a virtual clock. Everything else is tested on a real server. */
import type { Documents, PostResult } from "@berth/host";
import type { Node } from "@berth/kube";
import {
  type Change,
  type Component,
  createMetricsRegistry,
  createSilentLogger,
  createVirtualClock,
} from "@berth/runtime";
import { expect, it } from "vitest";
import { type ChangeMessage } from "./diff.ts";
import { nodeNotifierKind } from "./document.ts";
import { wireNotifiers } from "./notifiers.ts";

const SPEC = { keys: ["key"], retries: 2, post: { url: "https://receiver.test" } };

class Run {
  readonly clock = createVirtualClock();
  readonly metrics = createMetricsRegistry();
  readonly faults: string[] = [];
  readonly sent: string[] = [];
  answer: PostResult = { result: "accepted" };
  readonly #stop = new AbortController();
  #component: Component | undefined;
  #read: ((documents: Documents) => void) | undefined;
  #onChange: ((change: Change<Node>) => void) | undefined;
  #version = 0;

  constructor() {
    wireNotifiers({
      clock: this.clock,
      log: createSilentLogger(),
      metrics: this.metrics,
      client: undefined as never,
      nodes: {
        subscribe: (handler: { onChange(change: Change<Node>): void }) => this.#follow(handler),
      } as never,
      post: async (_, body) => {
        const { node, labelsUpdated } = body as ChangeMessage;
        this.sent.push(`${this.clock.monotonic() / 1000}s ${node} ${labelsUpdated["key"]}`);
        return this.answer;
      },
      onFiles: (listener) => {
        this.#read = listener;
      },
      onFault: ({ message }) => void this.faults.push(message),
      add: ([component]) => {
        this.#component = component;
      },
    });
    this.configure(SPEC);
  }

  #follow(handler: { onChange(change: Change<Node>): void }): Disposable {
    this.#onChange = (change) => handler.onChange(change);
    return { [Symbol.dispose]: () => undefined };
  }

  configure(spec: object): void {
    const document = {
      name: "a",
      spec: nodeNotifierKind.spec.parse(spec),
      file: "a.yaml",
      line: 1,
      column: 1,
    };
    this.#read?.({ documentsOf: () => [document] as never, specOf: () => undefined });
  }

  async start(): Promise<void> {
    await this.#component?.start(this.#stop.signal);
  }

  stop(): void {
    this.#stop.abort();
  }

  change(name: string, from: number, to: number): void {
    this.#version += 1;
    const metadata = { name, resourceVersion: String(this.#version) };
    const versionOf = (value: number): Node => ({
      metadata: { ...metadata, labels: { key: String(value) } },
    });
    this.#onChange?.({ type: "updated", old: versionOf(from), object: versionOf(to) });
  }

  async count(result: string): Promise<string | undefined> {
    const { body } = await this.metrics.expose();
    return new RegExp(`result="${result}"} (\\d+)`).exec(body)?.[1];
  }
}

it("sends at most one message a second for a node that flaps", async () => {
  const run = new Run();
  await run.start();
  for (let step = 0; step < 30; step += 1) {
    run.change("n", step, step + 1);
    await run.clock.advance(100);
  }
  await run.clock.advance(5_000);
  expect(run.sent).toEqual(["1s n 10", "2s n 20", "3s n 30"]);
});

it("sends nothing for a change that was undone, and nothing for a node that came back as it was", async () => {
  const run = new Run();
  await run.start();
  run.change("n", 1, 2);
  run.change("n", 2, 1);
  await run.clock.advance(60_000);
  expect(run.sent).toEqual([]);
});

it("does not end the wait before a retry because of further changes, and tries other nodes first", async () => {
  const run = new Run();
  await run.start();
  run.answer = { result: "failed", problem: "down", retryAfterMs: 60_000 };
  run.change("n", 1, 2);
  run.change("m", 1, 2);
  await run.clock.advance(1_000);
  run.change("n", 2, 3);
  await run.clock.advance(59_000);
  expect(run.sent).toEqual(["1s n 2"]);
  run.answer = { result: "accepted" };
  await run.clock.advance(2_000);
  expect(run.sent).toEqual(["1s n 2", "61s m 2", "62s n 3"]);
});

it("loses the oldest changes above 1,000 nodes, and warns once", async () => {
  const run = new Run();
  await run.start();
  for (let node = 0; node < 1_010; node += 1) run.change(`n${node}`, 1, 2);
  expect(await run.count("dropped")).toBe("10");
  expect(run.faults).toEqual(["NodeNotifier a: a change of node n0 is lost: more than 1000 nodes wait"]);
  await run.clock.advance(5_000);
  expect(await run.count("sent")).toBe("1000");
});

it("keeps what waits when its files are read again, and drops it when the notifier changes or Berth stops", async () => {
  const run = new Run();
  await run.start();
  run.change("n", 1, 2);
  run.configure(SPEC);
  await run.clock.advance(1_000);
  expect(await run.count("sent")).toBe("1");
  run.change("n", 2, 3);
  run.configure({ ...SPEC, retries: 3 });
  run.change("n", 3, 4);
  await run.clock.advance(5_000);
  expect([await run.count("sent"), await run.count("dropped")]).toEqual(["2", "1"]);
  run.change("n", 4, 5);
  run.stop();
  await run.clock.advance(5_000);
  expect([await run.count("sent"), await run.count("dropped")]).toEqual(["2", "2"]);
});
