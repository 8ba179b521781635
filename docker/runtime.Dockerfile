# The runtime's image: ddp-worker with libtorch and the sample data on Debian, as an unprivileged user.
# What it is made of is listed in it, as SPDX: /usr/local/share/sbom/ddp-runtime.spdx.json.
# Nothing is compiled here: INSTALL_TREE is what `make install` filled, a folder below the build context.
#   make install images
#   docker build -f docker/runtime.Dockerfile --build-arg INSTALL_TREE=build/release/install -t ddp-runtime .
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS system
RUN apt-get update && apt-get install -y --no-install-recommends \
      libfmt9 libprometheus-cpp-core1.0 libcivetweb1 libspdlog1.10 libstdc++6 libxxhash0 libyaml-cpp0.7 \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*

FROM system AS tree
ARG VERSION=0.1.0
ARG INSTALL_TREE=build/release/install
COPY ${INSTALL_TREE}/bin/ddp-worker ${INSTALL_TREE}/bin/ddp-train /tree/bin/
COPY ${INSTALL_TREE}/lib/ /tree/lib/
COPY ${INSTALL_TREE}/share/ddp/ /tree/share/ddp/
# A library that the program needs and the image lacks is found here, not when the pod starts.
RUN ! ldd /tree/bin/* | grep 'not found'
COPY docker/sbom.sh cmake/pins/wheels-torch.txt /build/
RUN mkdir -p /tree/share/sbom \
    && WHEELS=/build/wheels-torch.txt /build/sbom.sh ddp-runtime "${VERSION}" - >/tree/share/sbom/ddp-runtime.spdx.json

FROM system
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG BASE
LABEL org.opencontainers.image.title="ddp-runtime" \
      org.opencontainers.image.description="ddp-worker: data-parallel training of one rank of a DDPJob" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=tree /tree/ /usr/local/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/ddp-worker"]
