# Gateway, CPU worker and every other command of `gepard`: docker build -t gepard-gateway .
# There are no weights of Gepard in it; the embedded engine needs none. What passing the image on means: NOTICE and
# docs/deployment.md.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /src
COPY . .
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM ${PYTHON_IMAGE} AS dependencies
WORKDIR /src
COPY pyproject.toml constraints.txt ./
COPY deploy/docker/requirements.py ./
RUN python requirements.py pyproject.toml s3 > requirements.txt \
    && python -m venv /opt/gepard \
    && /opt/gepard/bin/python -m pip install --no-cache-dir -c constraints.txt -r requirements.txt

FROM ${PYTHON_IMAGE}
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin gepard \
    && install -d -o gepard -g gepard -m 0700 /data
COPY --from=dependencies /opt/gepard /opt/gepard
RUN --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    /opt/gepard/bin/python -m pip install --no-cache-dir --no-deps /wheel/*.whl
ENV PATH=/opt/gepard/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    GEPARD_DATA_DIR=/data
USER 10001:10001
WORKDIR /data
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=3 CMD ["gepard", "check", "gateway"]
ENTRYPOINT ["gepard"]
CMD ["gateway", "--host", "0.0.0.0"]
