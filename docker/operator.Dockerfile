# The operator's image: ddp-operator (and kubectl-ddp, for a look around) on Debian, as an unprivileged user.
# Nothing is compiled here: INSTALL_TREE is what `make install` filled, a folder below the build context.
#   make install images
#   docker build -f docker/operator.Dockerfile --build-arg INSTALL_TREE=build/release/install -t ddp-operator .
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS system
RUN apt-get update && apt-get install -y --no-install-recommends \
      ca-certificates libcpprest2.10 libfmt9 libnghttp2-14 libprometheus-cpp-core1.0 libprometheus-cpp-pull1.0 libspdlog1.10 \
      libssl3 libyaml-cpp0.7 \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*

FROM system AS tree
ARG INSTALL_TREE=build/release/install
COPY ${INSTALL_TREE}/bin/ddp-operator ${INSTALL_TREE}/bin/kubectl-ddp /tree/bin/
# A library that the programs need and the system lacks is found here, not when the pod starts.
RUN ! ldd /tree/bin/* | grep 'not found'

FROM system
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="ddp-operator" \
      org.opencontainers.image.description="Operator of DDPJob: data-parallel training on Kubernetes" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=tree /tree/bin/ /usr/local/bin/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/ddp-operator"]
