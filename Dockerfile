# ctl, to run operators from or to build images of operators upon; docs/deployment.md says how.
#
#   docker build -t ctl:0.1.0 .        (podman build and buildah bud take it as well)
#
# Versions are those of constraints.txt. For one that is the same byte by byte, give the base by its digest:
#   --build-arg PYTHON=python@sha256:...
ARG PYTHON=python:3.11-slim

FROM ${PYTHON} AS wheel
WORKDIR /src
COPY constraints.txt ./
RUN python -m venv /build && /build/bin/pip install --no-cache-dir -c constraints.txt setuptools
COPY . .
RUN /build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${PYTHON} AS installed
COPY constraints.txt /opt/ctl/constraints.txt
COPY --from=wheel /wheels /wheels
# What has no wheel would need a compiler here: rather say so.
RUN python -m venv /opt/ctl \
 && /opt/ctl/bin/pip install --no-cache-dir --only-binary :all: -c /opt/ctl/constraints.txt "$(ls /wheels/*.whl)[uvloop,webhooks]"

FROM ${PYTHON}
# Numbers, as Kubernetes needs them to see that this is not root.
RUN groupadd --gid 10001 ctl && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin ctl
COPY --from=installed /opt/ctl /opt/ctl
ENV PATH=/opt/ctl/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Before the user, so that the folder of the code is not theirs to write.
WORKDIR /app
USER 10001:10001
ENTRYPOINT ["ctl"]
CMD ["--help"]
