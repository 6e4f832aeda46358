export { baseName } from "@berth/host";
