# The operator's image: ddp-operator (and kubectl-ddp, for a look around) with the libraries that they load, CA certificates
# and nothing else: no shell, no package manager. Runs as an unprivileged user.
# Nothing is compiled here: INSTALL_TREE is what `make install` filled, a folder below the build context.
#   make install images
#   docker build -f docker/operator.Dockerfile --build-arg INSTALL_TREE=build/release/install -t ddp-operator .
# What it is made of is listed in it, as SPDX: /usr/share/sbom/ddp-operator.spdx.json.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS system
RUN apt-get update && apt-get install -y --no-install-recommends \
      ca-certificates libcpprest2.10 libfmt9 libnghttp2-14 libprometheus-cpp-core1.0 libspdlog1.10 libssl3 libyaml-cpp0.7 \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*

FROM system AS tree
ARG VERSION=0.1.0
ARG INSTALL_TREE=build/release/install
COPY ${INSTALL_TREE}/bin/ddp-operator ${INSTALL_TREE}/bin/kubectl-ddp /tree/usr/local/bin/
COPY docker/closure.sh docker/sbom.sh /build/
# A library that the programs need and the system lacks is found here, not when the pod starts.
RUN /build/closure.sh /tree /tree/usr/local/bin/ddp-operator /tree/usr/local/bin/kubectl-ddp \
    && install -D -m 644 /etc/ssl/certs/ca-certificates.crt /tree/etc/ssl/certs/ca-certificates.crt \
    && echo 'ddp:x:65532:65532::/:/none' >/tree/etc/passwd && echo 'ddp:x:65532:' >/tree/etc/group \
    && /build/sbom.sh ddp-operator "${VERSION}" /tree ca-certificates >/build/sbom.json \
    && install -D -m 644 /build/sbom.json /tree/usr/share/sbom/ddp-operator.spdx.json

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ddp-operator" \
      org.opencontainers.image.description="Operator of DDPJob: data-parallel training on Kubernetes" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="scratch" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=tree /tree/ /
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/ddp-operator"]
