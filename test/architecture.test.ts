import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");

/** Which packages of ours a package may import; the arrows of ARCHITECTURE.md. What only tests use may use the test cluster. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  kube: [],
  runtime: ["kube"],
  testcluster: ["kube"],
  host: ["kube", "runtime"],
  placement: ["kube", "runtime", "host", "registry"],
  registry: [],
  fleet: ["kube", "runtime", "host"],
  cli: ["kube", "runtime", "host", "placement", "fleet", "registry", "testcluster"],
};

interface Source {
  readonly path: string;
  readonly lines: readonly string[];
}

const sources: readonly Source[] = globSync("packages/*/src/**/*.ts", { cwd: root })
  .filter((path) => !path.endsWith(".test.ts") && !path.includes("/generated/"))
  .map((path) => ({ path, lines: readFileSync(join(root, path), "utf8").split("\n") }));

const textOf = (path: string): string =>
  sources.find((source) => source.path === path)?.lines.join("\n") ?? "";

const importsOf = (source: Source): readonly string[] =>
  source.lines.join("\n").match(/(?<=(?:from|import\()\s*")[^"]+(?=")|(?<=^import ")[^"]+(?=")/gm) ?? [];

/** `path:line: text` of the lines of `among` that match, so that a failure is a list of places to go to. */
function places(pattern: RegExp, among: (path: string) => boolean): readonly string[] {
  return sources
    .filter(({ path }) => among(path))
    .flatMap(({ path, lines }) =>
      lines.flatMap((line, index) =>
        pattern.test(line) && !/^\s*(\*|\/\/|\/\*)/.test(line)
          ? [`${path}:${index + 1}: ${line.trim()}`]
          : [],
      ),
    );
}

const isForTests = ({ path }: Source): boolean => path.includes("/testing/");

describe("the layers", () => {
  it.each(Object.entries(MAY_IMPORT))("%s imports no other package of ours than %j", (name, allowed) => {
    const broken = sources
      .filter(({ path }) => path.startsWith(`packages/${name}/`))
      .flatMap((source) =>
        importsOf(source)
          .filter((from) => from.startsWith("@berth/") && !allowed.includes(from.split("/")[1] ?? ""))
          .filter((from) => !(isForTests(source) && from === "@berth/testcluster"))
          .map((from) => `${source.path} imports ${from}`),
      );
    expect(broken).toEqual([]);
  });

  it("reaches another package by its name and not by a path", () => {
    const broken = sources.flatMap((source) =>
      importsOf(source)
        .filter((from) => from.startsWith("."))
        .filter((from) => {
          const target = join(source.path, "..", from);
          return !target.startsWith(source.path.split("/").slice(0, 3).join("/"));
        })
        .map((from) => `${source.path} imports ${from}`),
    );
    expect(broken).toEqual([]);
  });

  it("uses the test cluster in cli only for `berth cluster` and `berth demo`", () => {
    const users = sources
      .filter((source) => importsOf(source).includes("@berth/testcluster") && !isForTests(source))
      .map(({ path }) => path);
    const allowed = /^packages\/cli\/src\/(commands\/(cluster|demo)|demo\/)/;
    expect(users.filter((path) => !allowed.test(path))).toEqual([]);
  });

  it("has nothing of the product use what is for tests", () => {
    const users = sources
      .filter((source) => !isForTests(source))
      .filter((source) => importsOf(source).some((from) => from.includes("/testing/")));
    expect(users.map(({ path }) => path)).toEqual([]);
  });

  it("speaks HTTP to Kubernetes in kube only, and to registries in registry", () => {
    const broken = sources
      .filter(({ path }) => !/^packages\/(kube|registry|testcluster)\//.test(path))
      .filter((source) => importsOf(source).some((from) => from === "undici"));
    expect(broken.map(({ path }) => path)).toEqual([]);
  });
});

it("has nothing of the product import node:http, which loads Node's own undici: 5 MB and 14 ms", () => {
  const isProduct = (path: string): boolean => !/^packages\/testcluster\/|\/(?:testing|demo)\//.test(path);
  expect(places(/^import (?!type ).*from "node:http"/, isProduct)).toEqual([]);
});

/** One folder each in placement. */
const CAPABILITIES = new Set(
  sources.flatMap(({ path }) => /^packages\/placement\/src\/([^/]+)\/wiring\.ts$/.exec(path)?.[1] ?? []),
);

/** Of a file: `footprint`; `undefined` in `node/`, `api/` and elsewhere. */
function capabilityOf(path: string): string | undefined {
  const [, name] = /^packages\/placement\/src\/([^/]+)\//.exec(path) ?? [];
  return name !== undefined && CAPABILITIES.has(name) ? name : undefined;
}

/** Files of ours that a file imports. */
const filesImportedBy = (source: Source): readonly string[] =>
  importsOf(source)
    .filter((from) => from.startsWith("."))
    .map((from) => join(source.path, "..", from));

/** Imports from one capability, or from what is below all of them, into a capability. */
const intoCapabilities = sources
  .filter(({ path }) => /^packages\/placement\/src\/(?!index\.ts)(?!.*\/testing\/)/.test(path))
  .flatMap((source) =>
    filesImportedBy(source)
      .filter((file) => ![undefined, capabilityOf(source.path)].includes(capabilityOf(file)))
      .map((file) => `${source.path} imports ${file}`),
  );

describe("the libraries", () => {
  /** Names in strings and code count; imports, and comments, which `places` leaves out, do not. */
  const ofProduct = (path: string): readonly string[] =>
    places(/berth/i, (it) => it.startsWith(path) && !it.includes("/testing/")).filter(
      (place) => !/["'](?:@berth\/|\.)/.test(place),
    );

  it.each(["kube", "runtime", "host"])("%s names no product: names are given to it", (name) => {
    expect(ofProduct(`packages/${name}/src/`)).toEqual([]);
  });

  it("has no node, mark or taint in the host's code", () => {
    const nodes = /\b(?:nodes|taint\w*|marks)\b/i;
    expect(places(nodes, (path) => path.startsWith("packages/host/") && !path.includes("/testing/"))).toEqual(
      [],
    );
  });
});

describe("capabilities", () => {
  it("do not import each other, and nothing below imports one", () => {
    expect(intoCapabilities).toEqual([]);
  });

  it("are named in their folders, in the list, and in what is for one of them alone", () => {
    const alone = [
      /^packages\/cli\/src\/(?:capabilities|confinement|instance-confinement|manifests|daemonset-tolerations)\.ts$/,
      /^packages\/cli\/src\/(?:demo\/|declarations\/|commands\/(?:confirm|convert|convert-[a-z-]+|demo|gate|image|manifests|node-template)\.ts$)/,
      /^packages\/placement\/src\/api\/(?:agent-substrate|group|reasons)\.ts$/,
      // What Kubernetes calls the fields of a Node.
      /^packages\/kube\/src\/protobuf\/messages\.ts$/,
    ];
    const shared = /^packages\/(?:kube|host|cli|placement\/src\/(?:api|node))\//;
    const names =
      /footprint|startup-?gate\b|(?<!feature-)\bgates\b|architecture|worker-?pool|deschedul|label-?rule/i;
    const found = places(
      names,
      (path) => shared.test(path) && !path.includes("/testing/") && !alone.some((it) => it.test(path)),
    );
    expect(found).toEqual([]);
  });

  it("declare what they read: the host makes informers of it, and else only these files do", () => {
    const own = [
      // The nodes, which each capability reads.
      /^packages\/cli\/src\/(?:composition|session)\.ts$/,
      // Narrows the views of a command to one node.
      /^packages\/placement\/src\/node\/once\.ts$/,
      // ConfigMaps that the leader writes and the other replicas read.
      /^packages\/placement\/src\/architecture\/images\/fact-config-maps\.ts$/,
      /^packages\/cli\/src\/demo\//,
    ];
    const found = places(
      /\bcreate(?:Shared)?Informers?\(|\binformers?\.?informer[<(]|\bruntime\.informer[<(]/,
      (path) =>
        /^packages\/(?:cli|placement)\//.test(path) &&
        !path.includes("/testing/") &&
        !own.some((it) => it.test(path)),
    );
    expect(found).toEqual([]);
  });

  it("are in one list, where a new one is a line", () => {
    const values = places(/^export const \w+: NodeCapability\b/, (path) => path.endsWith("/wiring.ts"));
    const names = values.map((place) => /const (\w+)/.exec(place)?.[1] ?? "").sort();
    const [, list = ""] =
      /: readonly NodeCapability<.*?= \[(.*?)\]/s.exec(textOf("packages/cli/src/capabilities.ts")) ?? [];
    expect(list.match(/\w+/g)?.sort()).toEqual(names);
    expect(names).toHaveLength(CAPABILITIES.size);
  });
});

describe("the shape of the sources", () => {
  it("has no import cycle", () => {
    const graph = new Map(sources.map((source) => [source.path, filesImportedBy(source)]));
    expect(cyclesOf(graph)).toEqual([]);
  });

  it("has no folder with more than 50 source files side by side", () => {
    const files = Map.groupBy(sources, ({ path }) => dirname(path));
    const full = [...files].filter(([, { length }]) => length > 50).map(([folder]) => folder);
    expect(full).toEqual([]);
  });
});

/** Groups of files of which each reaches the others: the strongly connected components (Tarjan, 1972). */
function cyclesOf(graph: ReadonlyMap<string, readonly string[]>): readonly (readonly string[])[] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const cycles: (readonly string[])[] = [];
  const visit = (file: string): number => {
    const at = order.size;
    order.set(file, at);
    lowest.set(file, at);
    stack.push(file);
    for (const next of graph.get(file) ?? []) {
      const reached = order.has(next) ? (stack.includes(next) ? order.get(next) : undefined) : visit(next);
      lowest.set(file, Math.min(lowest.get(file) ?? at, reached ?? at));
    }
    const low = lowest.get(file) ?? at;
    if (low === at) {
      const cycle = stack.splice(stack.indexOf(file));
      if (cycle.length > 1) cycles.push(cycle.toSorted());
    }
    return low;
  };
  for (const file of graph.keys()) if (!order.has(file)) visit(file);
  return cycles;
}

describe("the rules of the house", () => {
  it("keeps every decision pure", () => {
    const pure = (path: string): boolean =>
      /\/(decide[a-z-]*|checks|admit|explain|forecast|merge|plan|rules|verdict|selection)\.ts$/.test(path) &&
      /packages\/(placement|fleet)\//.test(path);
    const impure =
      /from "(node:|undici|pino)|Date\.now\(|Math\.random|process\.|setTimeout|console\.|performance\./;
    expect(places(impure, pure)).toEqual([]);
  });

  it("keeps HTTP, timers and the environment out of placement and fleet", () => {
    const broken = places(
      /from "node:(http|https|net|timers|fs)|setTimeout\(|setInterval\(|process\./,
      (path) => /^packages\/(placement|fleet)\//.test(path),
    );
    expect(broken).toEqual([]);
  });

  it("leaves environment, arguments, exit and signals to cli", () => {
    const broken = places(
      /process\.(env|argv|exit|on)\b/,
      (path) => !/^packages\/(cli|testcluster)\//.test(path),
    );
    expect(broken).toEqual([]);
  });

  it("waits by the injected clock in runtime", () => {
    const broken = places(
      /\b(setTimeout|setInterval)\(|Date\.now\(\)/,
      (path) => /^packages\/(runtime|host|placement|fleet)\//.test(path) && !path.endsWith("/clock.ts"),
    );
    expect(broken).toEqual([]);
  });

  it("reads no HTTP status number above kube", () => {
    const broken = places(/statusCode|status === (4|5)\d\d/, (path) =>
      /^packages\/(runtime|host|placement|fleet|cli)\/src\/(?!probe-server|post\.ts)/.test(path),
    );
    expect(broken).toEqual([]);
  });

  it("has no escape hatches", () => {
    expect(
      places(/\bas any\b|: any\b|@ts-(ignore|expect-error)|\b(TODO|FIXME|XXX|HACK)\b/, () => true),
    ).toEqual([]);
  });

  it("gives a reason for every source file above 400 lines in its first comment", () => {
    const long = sources.filter(({ lines }) => lines.length > 400);
    expect(
      long.filter(({ lines }) => !/long because/i.test(lines.slice(0, 12).join(" "))).map(({ path }) => path),
    ).toEqual([]);
  });
});

describe("the lockfile", () => {
  interface Manifest {
    readonly dependencies?: Readonly<Record<string, string>>;
    readonly devDependencies?: Readonly<Record<string, string>>;
    readonly optionalDependencies?: Readonly<Record<string, string>>;
  }
  const read = (path: string): unknown => JSON.parse(readFileSync(join(root, path), "utf8"));
  const wanted = ({ dependencies, devDependencies, optionalDependencies }: Manifest): unknown => ({
    ...dependencies,
    ...devDependencies,
    ...optionalDependencies,
  });
  const lock = read("package-lock.json") as { readonly packages: Readonly<Record<string, Manifest>> };

  it.each(["", ...Object.keys(MAY_IMPORT).map((name) => `packages/${name}`)])(
    "is in step with %j/package.json",
    (folder) => {
      expect(wanted(lock.packages[folder] ?? {})).toEqual(
        wanted(read(join(folder, "package.json")) as Manifest),
      );
    },
  );

  it("pins every dependency exactly and names no registry", () => {
    for (const [folder, manifest] of Object.entries(lock.packages)) {
      if (folder !== "" && !folder.startsWith("packages/")) continue;
      for (const version of Object.values(wanted(manifest) as object))
        expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    }
    expect(readFileSync(join(root, "package-lock.json"), "utf8")).not.toMatch(/"resolved": "http/);
  });
});
