import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import tls from "node:tls";
import { describe, expect, it } from "vitest";
import { createAuthority } from "./certificates.ts";

describe("createAuthority", () => {
  it("signs certificates that chain to it", async () => {
    const authority = await createAuthority();
    const root = new X509Certificate(authority.certificate);
    const serving = new X509Certificate(
      (await authority.issueServing(["localhost", "127.0.0.1"])).certificate,
    );
    expect(root.ca).toBe(true);
    expect(serving.ca).toBe(false);
    expect(serving.verify(root.publicKey)).toBe(true);
    expect(serving.checkHost("localhost")).toBe("localhost");
    expect(serving.checkIP("127.0.0.1")).toBe("127.0.0.1");
    expect(serving.checkHost("example.com")).toBeUndefined();
  });

  it("puts user and groups where the API server reads them", async () => {
    const authority = await createAuthority();
    const client = new X509Certificate((await authority.issueClient("ann", ["dev", "ops"])).certificate);
    expect(client.subject.split("\n").toSorted()).toEqual(["CN=ann", "O=dev", "O=ops"]);
  });

  it("serves a mutual TLS handshake", async () => {
    const authority = await createAuthority();
    const { certificate, key } = await authority.issueServing(["127.0.0.1"]);
    const client = await authority.issueClient("ann", []);
    const server = tls.createServer({ cert: certificate, key, ca: authority.certificate, requestCert: true });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const accepted = once(server, "secureConnection");
    const socket = tls.connect({
      host: "127.0.0.1",
      port: (server.address() as AddressInfo).port,
      ca: authority.certificate,
      cert: client.certificate,
      key: client.key,
    });
    const [peer] = (await accepted) as [tls.TLSSocket];
    expect(peer.authorized).toBe(true);
    expect(peer.getPeerCertificate().subject.CN).toBe("ann");
    socket.destroy();
    peer.destroy();
    server.close();
    await once(server, "close");
  });
});
