import { inspect } from "node:util";
import { defaultImageRegistries } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { readCredentialProviders } from "./credential-provider-config.ts";
import { readRegistrySettings } from "./registry-settings.ts";
import { testFolder } from "./testing/harness.ts";

const SECRET = "correct-horse-battery";

/** As the documentation of ECR's provider has it. */
const ECR = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
  - name: ecr-credential-provider
    matchImages: ["*.dkr.ecr.*.amazonaws.com", public.ecr.aws]
    defaultCacheDuration: "12h"
    apiVersion: credentialprovider.kubelet.k8s.io/v1
    args: [get-credentials]
    env:
      - { name: AWS_PROFILE, value: pull }
`;

describe("a CredentialProviderConfig", () => {
  it("is read as the kubelet has it", async () => {
    await using folder = await testFolder({ "config.yaml": ECR });
    expect(await readCredentialProviders(`${folder.path}/config.yaml`)).toEqual([
      {
        name: "ecr-credential-provider",
        apiVersion: "credentialprovider.kubelet.k8s.io/v1",
        matchImages: ["*.dkr.ecr.*.amazonaws.com", "public.ecr.aws"],
        defaultCacheMs: 43_200_000,
        args: ["get-credentials"],
        env: { AWS_PROFILE: "pull" },
      },
    ]);
  });

  const changed = (from: string | RegExp, to: string): string => ECR.replace(from, to);
  it.each([
    ["is no YAML", `a: [${SECRET}`, "the file is not YAML"],
    ["explodes", aliases(), "the file is not YAML"],
    ["is of another kind", changed("CredentialProviderConfig", SECRET), "kind: "],
    ["is of another version", changed("k8s.io/v1", "k8s.io/v2"), "apiVersion: is not known"],
    ["has no providers", changed(/providers:[\s\S]*/, "providers: []"), "providers: "],
    [
      "leaves the folder",
      changed("ecr-cred", `../${SECRET}`),
      "providers.0.name: must be the name of a program",
    ],
    ["has an unknown field", changed("args:", "arguments:"), "providers.0: "],
    ["has no duration", changed('"12h"', SECRET), "providers.0.defaultCacheDuration: must be a duration"],
    [
      "has no place",
      changed("public.ecr.aws", `"me:${SECRET}@host"`),
      "providers.0.matchImages.1: must be a host",
    ],
    ["wants tokens", `${ECR}    tokenAttributes: {}\n`, "providers.0.tokenAttributes: is not supported"],
    ["has a name twice", ECR + ECR.slice(ECR.indexOf("  - name")), "providers: has a name twice"],
  ])("that %s is refused with its place, and without its values", async (_, text, why) => {
    await using folder = await testFolder({ "config.yaml": text });
    const file = `${folder.path}/config.yaml`;
    const error = await readCredentialProviders(file).catch((cause: Error) => cause);
    expect(error).toMatchObject({
      message: expect.stringContaining(`the credential providers of ${file}: ${why}`),
    });
    expect(inspect(error)).not.toContain(SECRET);
  });

  it("that is not there is refused", async () => {
    await expect(readCredentialProviders("/nowhere/config.yaml")).rejects.toThrow("cannot be read: ENOENT");
  });
});

/** Text that would have 10^9 elements. */
function aliases(): string {
  const lines = Array.from({ length: 9 }, (_, at) => {
    const list = Array.from({ length: 10 }, () => (at === 0 ? "x" : `*a${at - 1}`));
    return `a${at}: &a${at} [${list.join(", ")}]`;
  });
  return lines.join("\n");
}

it("programs get the variables that the document names, and no others", async () => {
  const credentialPlugins = { folder: "/plugins", environment: ["PATH", "AWS_ROLE_ARN", "MISSING"] };
  const environment = { PATH: "/bin", AWS_ROLE_ARN: "role", AWS_SECRET_ACCESS_KEY: SECRET };
  const settings = await readRegistrySettings({ ...defaultImageRegistries, credentialPlugins }, environment);
  expect(settings.credentialPlugins).toEqual({
    folder: "/plugins",
    providers: [],
    environment: { PATH: "/bin", AWS_ROLE_ARN: "role" },
  });
});
