/** Which watches serve all wanted scopes. */
import { includes, type Scope } from "./scope.ts";

/**
 * For each scope, by its text, the scope whose watch serves it: the widest of them that includes it. A scope that the API
 * server refuses serves only itself, so that nothing narrower waits for it.
 */
export function cover(
  scopes: Iterable<Scope>,
  isRefused: (scope: Scope) => boolean,
): ReadonlyMap<string, Scope> {
  const all = [...new Map(Array.from(scopes, (it) => [it.text, it])).values()].sort((a, b) =>
    a.text < b.text ? -1 : 1,
  );
  const open = all.filter((it) => !isRefused(it));
  const widest = (scope: Scope): Scope =>
    isRefused(scope)
      ? scope
      : open.reduce((best, it) => (includes(it, best) && !includes(best, it) ? it : best), scope);
  return new Map(all.map((scope) => [scope.text, widest(scope)]));
}
