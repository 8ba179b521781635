# A PyTorch program of your own, as you would build it anywhere: nothing of this project is in it.
#   docker build -f docker/examples/own-pytorch.Dockerfile -t own-pytorch:1.0.0 docker/examples
# manifests/samples/pytorch.yaml runs it. For GPUs nothing changes: the wheel has CUDA, the node's driver comes from outside.
ARG BASE=docker.io/library/python:3.12-slim-bookworm
FROM ${BASE}
RUN pip install --no-cache-dir torch==2.11.0 numpy==2.2.6
COPY train.py /opt/train.py
USER 65532:65532
CMD ["torchrun", "/opt/train.py"]
