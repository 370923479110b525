# ctl, to run operators from or to build images of operators upon; docs/deployment.md says how.
#
#   docker build -t ctl:0.1.0 .        (podman build and buildah bud take it as well)
#
# The same everywhere: the base by its digest (that of python:3.11-slim for all platforms), packages by their hashes. For another base:
#   --build-arg PYTHON=python@sha256:...
ARG PYTHON=python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7

FROM ${PYTHON} AS wheel
WORKDIR /src
COPY requirements-build.lock ./
RUN python -m venv /build && /build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY . .
RUN /build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${PYTHON} AS installed
COPY constraints.txt requirements.lock /opt/ctl/
COPY --from=wheel /wheels /wheels
# What has no wheel would need a compiler here: rather say so. And so what the lock lacks for another Python.
RUN python -m venv /opt/ctl \
 && /opt/ctl/bin/pip install --no-cache-dir --only-binary :all: --require-hashes -r /opt/ctl/requirements.lock \
 && /opt/ctl/bin/pip install --no-cache-dir --no-index --no-deps /wheels/*.whl \
 && /opt/ctl/bin/pip check

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
