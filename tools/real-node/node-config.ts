/** What the programs of a node read. Everything is as by default, except where nodes would meet on one machine. */
import { HUB } from "./network.ts";
import type { Programs } from "./programs.ts";

export const REGISTRY: string = `${HUB}:5000`;

/** Every image comes from the local registry, also one of Docker Hub. */
export const REGISTRY_HOSTS: string = `[host."http://${REGISTRY}"]
capabilities = ["pull", "resolve"]
`;

export const containerdConfig = ({ runc, cni }: Programs): string => `version = 3
[plugins."io.containerd.internal.v1.opt"]
path = "/var/lib/containerd/opt"
[plugins."io.containerd.nri.v1.nri"]
disable = true
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "${REGISTRY}/pause:1"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "/run/certs.d"
[plugins."io.containerd.cri.v1.runtime"]
# Root may lack the capability to protect processes from the end of memory.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["${cni}"]
conf_dir = "/run/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "${runc}"
`;

/** A bridge in the node. Nothing is masqueraded, because every node has a route to the pods of the others. */
export const cniConfig = (pods: string): string =>
  JSON.stringify({
    cniVersion: "1.0.0",
    name: "pods",
    plugins: [
      {
        type: "bridge",
        bridge: "pods",
        isGateway: true,
        hairpinMode: true,
        ipam: { type: "host-local", ranges: [[{ subnet: pods }]], routes: [{ dst: "0.0.0.0/0" }] },
      },
    ],
  });

export const kubeletConfig = (cgroup: string): string =>
  JSON.stringify({
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    // For `kubectl logs`: the API server has no certificate for kubelets, and only this machine reaches the bridge.
    authentication: { anonymous: { enabled: true } },
    authorization: { mode: "AlwaysAllow" },
    cgroupDriver: "cgroupfs",
    cgroupRoot: cgroup,
    failCgroupV1: false,
    failSwapOn: false,
    containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
    volumePluginDir: "/var/lib/kubelet/volume-plugins",
    resolvConf: "",
    makeIPTablesUtilChains: false,
    serializeImagePulls: false,
    // The disk is that of the machine: how full it is says nothing about the node.
    imageGCHighThresholdPercent: 100,
    evictionHard: { "memory.available": "50Mi" },
    // A node that falls silent is found so a few seconds later.
    nodeLeaseDurationSeconds: 12,
  });
