import { expect, it } from "vitest";
import { renderKubeconfig } from "./kubeconfig.ts";

it("renderKubeconfig is block YAML with everything inline", () => {
  const text = renderKubeconfig({
    server: "https://127.0.0.1:6443",
    ca: "CA",
    user: { name: 'odd: "name"', token: "secret" },
    name: "berth",
  });
  expect(text).toMatchInlineSnapshot(`
    "apiVersion: v1
    kind: Config
    clusters:
    - name: "berth"
      cluster:
        server: "https://127.0.0.1:6443"
        certificate-authority-data: Q0E=
    users:
    - name: "odd: \\"name\\""
      user:
        token: "secret"
    contexts:
    - name: "berth"
      context:
        cluster: "berth"
        user: "odd: \\"name\\""
    current-context: "berth"
    "
  `);
});
