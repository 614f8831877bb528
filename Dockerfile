# docker build --tag fedgrid .
# docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/work" fedgrid fedgrid go
# The build of torch with CUDA is the usual one: docker run --gpus all. Without a GPU the CPU's saves gigabytes: --build-arg
# TORCH_INDEX=the index that https://pytorch.org/get-started/locally names for it.
# On a cluster: docker save --output fedgrid.tar fedgrid, then there apptainer build fedgrid.sif docker-archive:fedgrid.tar.
FROM python:3.11-slim-bookworm
ARG TORCH_INDEX=""
# for those who run it under a user that the image does not know, and who has no home in it
ENV XDG_CACHE_HOME=/tmp/.cache MPLCONFIGDIR=/tmp/.matplotlib

WORKDIR /opt/fedgrid
COPY constraints.txt ./
# pip prefers 2.x.y+cpu of torch's own index to 2.x.y
RUN pip install --no-cache-dir --constraint constraints.txt \
    ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch torchvision
COPY LICENSE README.md pyproject.toml ./
COPY config config
COPY docs/writing-a-method.md docs/
COPY profiles profiles
COPY src src
COPY workflow workflow
RUN pip install --no-cache-dir --constraint constraints.txt '.[check,download,features]'

RUN useradd --uid 1000 --create-home fedgrid && install --directory --owner 1000 /work
USER 1000
WORKDIR /work
CMD ["fedgrid", "--help"]
