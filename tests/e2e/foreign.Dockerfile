# Somebody else's image: no code of this project, only the environment that every distributed program knows.
ARG BASE=docker.io/library/debian:bookworm-slim
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends python3-minimal \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*
COPY foreign.py /foreign.py
USER 65532:65532
CMD ["python3", "/foreign.py"]
