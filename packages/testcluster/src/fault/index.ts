export * from "./actions.ts";
export { type ForwardProxy, type ForwardProxyOptions, startForwardProxy } from "./forward-proxy.ts";
export { type Hold, hold } from "./hold.ts";
export { type HttpProxy, type HttpProxyOptions, startHttpProxy } from "./http-proxy.ts";
export type * from "./interceptor.ts";
export type { RequestMatch, WatchEventMatch, WatchEventType } from "./match.ts";
export type { LoggedRequest } from "./request-log.ts";
export type { RequestTarget } from "./request-target.ts";
export type { Rule, RuleOptions } from "./rule.ts";
export type { StatusOptions } from "./status.ts";
export type { Direction, Traffic } from "./tcp-lane.ts";
export {
  type LaneControls,
  type ScriptStep,
  startTcpProxy,
  type TcpProxy,
  type TcpProxyOptions,
  type TcpStats,
} from "./tcp-proxy.ts";
export type { Playback, ScriptTrigger } from "./tcp-script.ts";
