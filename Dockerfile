# For those who have an engine. `make image` makes the folders, and the same image without one: `docker build -t IMAGE .`
# The option of Node bounds V8's young generation to 8 MB, and one arena of malloc is enough; see bin/berth.
FROM scratch
# BuildKit sets it; other builders need --build-arg TARGETARCH=amd64.
ARG TARGETARCH
COPY build/root/debian-${TARGETARCH}/ /
COPY build/root/node-${TARGETARCH}/ /
COPY build/root/berth/ /
ENV PATH=/usr/bin
ENV MALLOC_ARENA_MAX=1
USER 65532:65532
VOLUME ["/labels"]
ENTRYPOINT ["node", "--max-semi-space-size=4", "/berth/berth.js"]
CMD ["run"]
