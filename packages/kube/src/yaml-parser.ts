/** A separate module, so that even a bundle can load it late (`yaml` itself is CommonJS on Node). */
export { parse } from "yaml";
