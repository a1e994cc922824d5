# The host's image: windlass-host and its compiler, with the C library in them, and the certificates of public CAs. It has no other library,
# no shell and no package manager.
#
#     docker build --tag windlass:0.1.0 .       builds the binaries in the image
#     cargo xtask image                         builds them here, with buildah; where BUILDER cannot be pulled, Debian's packages make it
#     docker build --target command --output type=local,dest=. .    builds the command `windlass` instead
#
# BUILDER needs glibc 2.34 or later, and so does the machine of `cargo xtask image`: earlier ones look up names with libraries that the
# image does not have.
ARG BUILDER=rust:1.95-bookworm
FROM ${BUILDER} AS build
RUN apt-get update \
    && apt-get install --no-install-recommends --yes ca-certificates \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# `cargo xtask image` copies binaries that were built before; the source is not there then. Each is built alone: built together, the host
# would get the compiler.
RUN if [ ! -e windlass-host ]; then \
        for name in windlass-host windlass-compile; do \
            cargo rustc --profile dist --locked --package $name --bin $name -- -C target-feature=+crt-static \
                && cp target/dist/$name . || exit 1; \
        done; \
    fi
RUN mkdir -p /image/usr/local/bin /image/etc/ssl/certs \
    && cp windlass-host windlass-compile /image/usr/local/bin/ \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ \
    && echo 'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin' > /image/etc/passwd \
    && echo 'nogroup:x:65534:' > /image/etc/group \
    && echo 'hosts: files dns' > /image/etc/nsswitch.conf

FROM build AS command-build
# The image that `windlass install` of this build installs. Without it, `windlass install` needs --image.
ARG WINDLASS_RELEASED_IMAGE
RUN cargo build --profile dist --locked --package windlass

FROM scratch AS command
COPY --from=command-build /source/target/dist/windlass /

FROM scratch
LABEL org.opencontainers.image.title="windlass" \
      org.opencontainers.image.description="Runs Kubernetes operators as sandboxed WebAssembly plugins" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image /
# User 65534: the host needs no permissions on its node.
USER 65534:65534
# Below a volume that the container may write to: the host makes a private folder there.
ENV WINDLASS_CACHE_DIR=/var/cache/windlass/host
EXPOSE 8080 9090
ENTRYPOINT ["/usr/local/bin/windlass-host"]
