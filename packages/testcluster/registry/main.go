// Command registry is the reference OCI registry (github.com/distribution/distribution) with what the tests need of
// it: storage in a folder and users in a htpasswd file. `registry serve config.yml` runs it, as in its own releases.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	// The command prints the error itself.
	if registry.RootCmd.Execute() != nil {
		os.Exit(1)
	}
}
