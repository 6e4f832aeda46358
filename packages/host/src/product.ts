/** The program that runs on the host, and the names that follow from it. */

export interface Product {
  /** Begins the names of its objects and metrics, and is its field manager: `berth`. */
  readonly name: string;
  /** Of its annotations, and of its webhooks: `berth.dev`. */
  readonly domain: string;
  /** The component label of the Secret with the certificates of its webhook. Default `admission`. */
  readonly certificates?: string;
  /** The command that prints its CRDs, for messages: `berth manifests crds`. */
  readonly printsCrds?: string;
}

/** One of several installations of a product, which leave each other's objects alone. */
export interface Installed {
  readonly product: Product;
  readonly installation: string;
}

/** The prefix of object names: `berth`, or `berth-<installation>` for any other installation. */
export function baseName({ product: { name }, installation }: Installed): string {
  return installation === name ? name : `${name}-${installation}`;
}

/** Labels of all objects of an installation. */
export function installedLabels({ product, installation }: Installed): Readonly<Record<string, string>> {
  return { "app.kubernetes.io/name": product.name, "app.kubernetes.io/instance": installation };
}

/** Labels of all admission objects of a component. The host deletes objects with these labels that it no longer needs. */
export function ownerLabels(of: Installed, component: string): Readonly<Record<string, string>> {
  return { ...installedLabels(of), "app.kubernetes.io/component": component };
}

/** `app=a,tier=b`. */
export function toLabelSelector(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}
