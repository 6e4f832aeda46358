/** Public keys as in `authorized_keys` (sshd(8)), without options. */

const TYPES: ReadonlySet<string> = new Set([
  "ssh-ed25519",
  "ssh-rsa",
  "ssh-dss",
  "ecdsa-sha2-nistp256",
  "ecdsa-sha2-nistp384",
  "ecdsa-sha2-nistp521",
  "sk-ssh-ed25519@openssh.com",
  "sk-ecdsa-sha2-nistp256@openssh.com",
]);

/** Characters: `SSH_MAX_PUBKEY_BYTES` of OpenSSH. */
const MAX_KEY = 16_384;

/** `<type> <base64> [<comment>]`, with the same type in the base64. The numbers of the key are not checked. */
export function isAuthorizedKey(text: string): boolean {
  const [, type = "", base64 = ""] = /^[ \t]*([^ \t]+)[ \t]+([^ \t]+)/.exec(text.slice(0, MAX_KEY)) ?? [];
  if (!TYPES.has(type) || base64.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return false;
  const strings = wireStrings(Buffer.from(base64, "base64"));
  return strings.length > 1 && strings[0]?.toString("latin1") === type;
}

/** Strings with their lengths in front (RFC 4251, section 5). None when the bytes are not just that. */
function wireStrings(bytes: Buffer): readonly Buffer[] {
  const strings: Buffer[] = [];
  let at = 0;
  while (at + 4 <= bytes.length) {
    const end = at + 4 + bytes.readUInt32BE(at);
    strings.push(bytes.subarray(at + 4, end));
    at = end;
  }
  return at === bytes.length ? strings : [];
}
