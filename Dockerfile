# The image of Berth: `make build`, then `docker build -t IMAGE .`. One folder without dependencies, and Node 24.
FROM node:24-slim
COPY packages/cli/dist/bin /berth
USER 65532:65532
ENTRYPOINT ["node", "/berth/berth.js"]
CMD ["run"]
