# The host, from a binary that was built before: `cargo xtask image` does both.
#
#     cargo build --release --locked --bin windlass
#     buildah bud --tag windlass:0.1.0 --file Dockerfile target/release
#
# The same release of Debian that the binary was built on, or a newer one: it is linked against its C library.
FROM debian:bookworm-slim
# Registries of components are reached over TLS.
RUN apt-get update \
    && apt-get install --no-install-recommends --yes ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY windlass /usr/local/bin/windlass
# User 65534: the host needs no permissions on its node.
USER 65534:65534
# Below a volume that the container may write to: the host makes a private folder there.
ENV WINDLASS_CACHE_DIR=/var/cache/windlass/host
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/windlass"]
CMD ["run"]
