/** In a module of its own so that it can be loaded late, also from a bundle (`yaml` itself is CommonJS on Node). */
export { parse } from "yaml";
