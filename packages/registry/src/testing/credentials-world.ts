/** Registries that want credentials, and credentials of every kind. */
import type { RegistryClientOptions } from "../client.ts";
import type { RegistryCredential } from "../types.ts";
import { type ListedWorld, startWorld } from "./client-world.ts";
import { type FaultRegistry, type FaultRegistryAuth } from "./fault-registry.ts";

export const SECRET = 'hunter2:ümlaut,"quoted"';
export const good: RegistryCredential = { username: "amy", password: SECRET };
export const wrong: RegistryCredential = { username: "amy", password: "wrong-secret" };
export const users: Readonly<Record<string, string>> = { amy: SECRET };

export const withTokens = (
  more: Partial<FaultRegistryAuth & { scheme: "token" }> = {},
): FaultRegistryAuth => ({
  scheme: "token",
  users,
  ...more,
});

export function fill<T extends FaultRegistry>(registry: T): T {
  registry.index("a/b", "1", ["linux/amd64"]);
  registry.index("a/c", "1", ["linux/arm64"]);
  return registry;
}

export async function worldWith(auth: FaultRegistryAuth, more?: RegistryClientOptions): Promise<ListedWorld> {
  const world = await startWorld({ auth }, more);
  fill(world.registry);
  return world;
}
