// Reads a dashboard, and says where it differs from Grafana's own schema: fields that are missing, unknown or wrong.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	text, err := io.ReadAll(os.Stdin)
	check(err)
	var read dashboard.Dashboard
	check(read.UnmarshalJSONStrict(text))
	check(read.Validate())
}

// Without a problem the library returns an empty list, which is an error that says nothing.
func check(err error) {
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
