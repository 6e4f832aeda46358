{{- /* Written by `make generate`. */}}
{{- define "berth.defaults" -}}
{
  "fleet": {
    "cell": "single",
    "driver": "direct",
    "moves": {
      "atOnce": 10,
      "timeout": "10m"
    },
    "cities": [],
    "networking": "Auto",
    "provider": "pods",
    "catalog": {
      "datumcloud/d1-standard-2": {
        "millicores": 1000,
        "mebibytes": 2048
      }
    },
    "providers": {
      "users": [],
      "groups": []
    },
    "locations": {},
    "template": {
      "keys": [
        "app.kubernetes.io/*"
      ],
      "maxSize": "32Ki",
      "maxTotal": "16Mi"
    },
    "pods": {
      "capabilities": [
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "KILL",
        "NET_BIND_SERVICE",
        "SETGID",
        "SETUID"
      ],
      "ephemeralStorage": "10Gi",
      "added": {
        "images": [],
        "volumes": [],
        "audiences": [],
        "keys": [],
        "priorityClasses": []
      }
    },
    "featureGates": {
      "ContainerResources": false
    }
  },
  "pools": {
    "allow": {
      "images": [],
      "namespaces": [],
      "priorityClasses": []
    },
    "workerPoolUid": false
  },
  "wait": {
    "name": "wait-for-atelet",
    "image": "busybox:1.36",
    "port": 8085
  },
  "presets": {
    "agent-substrate/pr-134": {
      "resource": {
        "group": "ate.dev",
        "version": "v1alpha1",
        "resource": "workerpools"
      },
      "finalizer": "ate.dev/release-node-claims",
      "onDelete": "DeleteOwned",
      "ownedResources": [
        {
          "group": "apps",
          "version": "v1",
          "resource": "deployments"
        }
      ]
    },
    "agent-substrate/owner-uid": {
      "resource": {
        "group": "ate.dev",
        "version": "v1alpha1",
        "resource": "workerpools"
      },
      "finalizer": "ate.dev/release-node-claims",
      "onDelete": "DeleteOwned",
      "ownedResources": [
        {
          "group": "apps",
          "version": "v1",
          "resource": "deployments"
        }
      ]
    }
  },
  "ofProjects": {
    "matchExpressions": [
      {
        "key": "meta.datumapis.com/upstream-cluster-name",
        "operator": "Exists"
      }
    ]
  }
}
{{- end }}
{{- define "berth.originalLabels" -}}
{
  "accelerators/edgetpu": "kkohtaka.org/edgetpu\nfeature.node.kubernetes.io/usb-fe_1a6e_089a.present\nfeature.node.kubernetes.io/pci-0880_1ac1.present\nbeta.devicetree.org/fsl-imx8mq-phanbell\n",
  "accelerators/ncs2": "feature.node.kubernetes.io/usb-ff_03e7_2485.present\n"
}
{{- end }}
