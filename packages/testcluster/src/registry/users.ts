/** A user of a registry with basic authentication. */
export interface RegistryUser {
  readonly name: string;
  readonly password: string;
  /** The bcrypt hash of the password, as `htpasswd -B` prints it: the registry takes no other kind. */
  readonly hash: string;
}

/**
 * Two users with everything a test needs, so that nothing has to compute a hash: one who may, and one of another
 * registry. The hashes have the lowest cost there is (4), as the registry checks one at each request.
 */
export const REGISTRY_USER: RegistryUser = {
  name: "reader",
  password: "reader-password",
  hash: "$2a$04$1Bn/oqJEahdr.dCyguG8Q.ZbD7v7odLbfi4ZXVTkJegY2Q1zAKzV2",
};

/** See `REGISTRY_USER`. */
export const OTHER_REGISTRY_USER: RegistryUser = {
  name: "other",
  password: "other-password",
  hash: "$2a$04$PORKvoMv6biDO6Ji9igZDu7dHSPGvoHtnjlSoqqeEItMPzZwD8Q5a",
};

/** The `Authorization` header of a user (RFC 7617). */
export function basicCredential({ name, password }: Pick<RegistryUser, "name" | "password">): string {
  return `Basic ${Buffer.from(`${name}:${password}`).toString("base64")}`;
}
