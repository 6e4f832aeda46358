# The image of Berth: `make build`, then `docker build -t IMAGE .`. One folder without dependencies, and Node 24.
# The build pins the base: --build-arg NODE_IMAGE=node:24-slim@sha256:…
# The option of Node bounds V8's young generation to 8 MB; see bin/berth.
ARG NODE_IMAGE=node:24-slim
FROM ${NODE_IMAGE}
COPY packages/cli/dist/bin /berth
USER 65532:65532
ENTRYPOINT ["node", "--max-semi-space-size=4", "/berth/berth.js"]
CMD ["run"]
