# A trainer of your own in C++, on the runtime's image: built against the SDK, then put beside libtorch.
# The build context is this repository, the SDK and the runtime's image come from it:
#   make install images && cmake --install build/release --component sdk --prefix build/release/sdk
#   docker build -f docker/examples/own-trainer.Dockerfile -t own-trainer:1.0.0 .
# SOURCE is a CMake project that says find_package(ddp) and links ddp::ddp; TRAINER the program that it makes.
ARG BASE=docker.io/library/debian:bookworm-slim
ARG RUNTIME=docker.io/library/ddp-runtime:0.1.0

FROM ${BASE} AS system
RUN apt-get update && apt-get install -y --no-install-recommends cmake g++ libfmt-dev libspdlog-dev make python3-pip \
    && rm -rf /var/lib/apt/lists/*
# libtorch's headers, of the version that the runtime has; a build that mounts them at /torch saves the download.
RUN [ -d /torch/torch ] || pip install --break-system-packages --no-cache-dir --no-deps --target /torch torch==2.11.0

FROM system AS build
ARG SDK=build/release/sdk
ARG SOURCE=runtime/examples
ARG TRAINER=ddp-example-lesson
COPY ${SDK}/ /sdk/
COPY ${SOURCE}/ /source/
# The trainer will lie in /usr/local/bin, and what it needs in /usr/local/lib.
RUN cmake -S /source -B /build -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=/sdk -DDDP_TORCH_ROOT=/torch \
      -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON '-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib' \
    && cmake --build /build --target "${TRAINER}" \
    && install -D -s "/build/${TRAINER}" /tree/bin/trainer \
    && mkdir -p /tree/lib && cp -P /sdk/lib/libddp.so* /tree/lib/

FROM ${RUNTIME}
LABEL org.opencontainers.image.title="own-trainer" \
      org.opencontainers.image.version="1.0.0"
COPY --from=build /tree/ /usr/local/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/trainer"]
