import type { HttpProxy } from "@berth/testcluster";
import type { BerthProcess } from "./product.ts";

/** When Berth dies: at its so manieth request of a kind, before or after the server gets it, or after some time. */
export type Death =
  | { readonly do: "patch" | "request"; readonly count: number; readonly forwarded: boolean }
  | { readonly do: "time"; readonly ms: number };

export interface Trap extends Disposable {
  /** Resolves with the first request: how long a process takes to start is a matter of the machine. */
  readonly begun: Promise<void>;
  readonly sprung: Promise<void>;
  readonly arm: (berth: BerthProcess) => void;
}

/** Kills Berth at the request that it waits for; Berth never gets the answer. */
export function setTrap(proxy: HttpProxy, planned: Death): Trap {
  const { promise: sprung, resolve: spring } = Promise.withResolvers<void>();
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  let victim: BerthProcess | undefined;
  let seen = 0;
  const installed = proxy.intercept({
    async request(request, forward) {
      begin();
      const isPatch = request.verb === "patch" && request.resource === "nodes";
      if (planned.do === "time" || (planned.do === "patch" && !isPatch)) return forward();
      seen += 1;
      if (seen !== planned.count) return forward();
      if (planned.forwarded) await forward();
      await victim?.kill();
      spring();
      return { kind: "cut", scope: "connection" };
    },
  });
  return {
    begun,
    sprung,
    arm: (berth: BerthProcess) => void (victim = berth),
    [Symbol.dispose]: () => installed[Symbol.dispose](),
  };
}
